package ratelimit

import (
	"cmp"
	"slices"
	"time"
)

// A place in the queue is kept for whoever comes back to it in time.
type place struct {
	ticket
	classes  []Class
	priority Priority
	serial   uint64
	since    time.Time
	due      time.Time // when it was told to come back
	// blocked is until when the resource's own limits keep it from going.
	blocked time.Time
	line    *line // it stands in; nil outside of the queue
}

func (pl *place) block(until time.Time) {
	pl.blocked = until
	if pl.line != nil && until.After(pl.line.blocked) {
		pl.line.blocked = until
	}
}

// A queue is everybody who waits: the urgent first, and who came first among equals. It
// consists of lines, of which there are few, since a thousand who wait all want to know how
// many are before them. The zero queue is empty.
type queue []*line

// A line is those who wait for the same with the same priority, by their serials.
type line struct {
	priority Priority
	classes  []Class
	places   []*place
	blocked  time.Time // until when some of them may be
}

// enter puts a place where its priority and serial say.
func (q *queue) enter(pl *place) {
	l := q.lineFor(pl)
	at, _ := l.find(pl)
	l.places = slices.Insert(l.places, at, pl)
	pl.line = l
	pl.block(pl.blocked)
}

func (q *queue) lineFor(pl *place) *line {
	for _, l := range *q {
		if l.priority == pl.priority && slices.Equal(l.classes, pl.classes) {
			return l
		}
	}
	l := &line{priority: pl.priority, classes: pl.classes}
	*q = append(*q, l)
	return l
}

func (q *queue) leave(pl *place) {
	if l := pl.line; l != nil {
		if at, there := l.find(pl); there {
			l.places = slices.Delete(l.places, at, at+1)
		}
		pl.line = nil
	}
}

// forget removes those of whom lapsed is true.
func (q *queue) forget(lapsed func(*place) bool) {
	for _, l := range *q {
		l.places = slices.DeleteFunc(l.places, lapsed)
	}
}

// find returns where a place is in the line, or would be.
func (l *line) find(pl *place) (int, bool) {
	return slices.BinarySearchFunc(l.places, pl.serial, func(p *place, serial uint64) int { return cmp.Compare(p.serial, serial) })
}

// ahead counts, for each class of a place, those before it that will take a token first.
// Who cannot go for a reason that the place does not share, such as a class that is shut,
// must not hold it up meanwhile.
func (q *queue) ahead(pl *place, shut []Class, now time.Time) []float64 {
	n := make([]float64, len(pl.classes))
	for _, l := range *q {
		if len(l.places) == 0 || l.priority < pl.priority || slices.ContainsFunc(l.classes, func(c Class) bool { return slices.Contains(shut, c) }) {
			continue
		}
		before := float64(l.before(pl, now))
		for i, c := range pl.classes {
			if slices.Contains(l.classes, c) {
				n[i] += before
			}
		}
	}
	return n
}

// before is how many of the line go before a place that is no more urgent.
func (l *line) before(pl *place, now time.Time) int {
	n := len(l.places)
	if l.priority == pl.priority {
		n, _ = l.find(pl)
	}
	if !l.blocked.After(now) {
		return n
	}
	free := 0
	for _, p := range l.places[:n] {
		if !p.blocked.After(now) || p.key == pl.key {
			free++
		}
	}
	return free
}
