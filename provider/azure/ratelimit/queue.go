// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"cmp"
	"slices"
	"time"
)

// A place is a position in the queue. It is kept for a caller that returns in time.
type place struct {
	ticket
	classes  []Class
	priority Priority
	serial   uint64
	since    time.Time
	due      time.Time // when the caller is expected to return
	// blocked is until when the resource's own limits hold the request back.
	blocked time.Time
	line    *line // the line it is in; nil outside of the queue
}

func (pl *place) block(until time.Time) {
	pl.blocked = until
	if pl.line != nil && until.After(pl.line.blocked) {
		pl.line.blocked = until
	}
}

// A queue holds all waiting requests: higher priority first, and by arrival among equals. It
// consists of few lines, since every one of a thousand requests counts those before it. The zero
// queue is empty.
type queue []*line

// A line holds requests with the same classes and priority, by serial.
type line struct {
	priority Priority
	classes  []Class
	places   []*place
	blocked  time.Time // the latest blocked of its places
}

// enter inserts a place by its priority and serial.
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

// forget removes the places for which lapsed returns true.
func (q *queue) forget(lapsed func(*place) bool) {
	for _, l := range *q {
		l.places = slices.DeleteFunc(l.places, lapsed)
	}
}

// find returns the index of a place in the line, or where it would be.
func (l *line) find(pl *place) (int, bool) {
	return slices.BinarySearchFunc(l.places, pl.serial, func(p *place, serial uint64) int { return cmp.Compare(p.serial, serial) })
}

// ahead counts, for each class of a place, the requests before it that will take a token first.
// Requests that cannot be sent for a reason that does not apply to the place, such as a class
// that is closed, do not count.
func (q *queue) ahead(pl *place, closed []Class, now time.Time) []float64 {
	n := make([]float64, len(pl.classes))
	for _, l := range *q {
		if len(l.places) == 0 || l.priority < pl.priority || slices.ContainsFunc(l.classes, func(c Class) bool { return slices.Contains(closed, c) }) {
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

// before returns how many requests of the line are sent before a place of the same or lower
// priority.
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
