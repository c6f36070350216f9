package azure

import (
	"math"
	"sync"
	"time"

	"github.com/karve-dev/karve/provider"
)

// pressure learns how fast budgets shrink. The zero pressure knows nothing yet.
type pressure struct {
	mu    sync.Mutex
	paces map[string]pace // by budget
}

// A pace is how fast a budget was seen to shrink.
type pace struct {
	left      int64
	seen      time.Time
	perSecond float64 // negative while it grows
}

const (
	// paceMemory is over how long a pace is averaged: bursts pass, trends stay.
	paceMemory = 10 * time.Minute
	// paceEvery is how often it is measured.
	paceEvery = 30 * time.Second
	// paceHorizon is how far ahead it is believed.
	paceHorizon = 24 * time.Hour
)

// observe measures what is left, and says which budgets will be used up within a day if
// it goes on like this. Times are whole minutes, so that they do not change all the time.
func (p *pressure) observe(now time.Time, left map[string]int64) map[string]provider.Exhaustion {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paces == nil {
		p.paces = map[string]pace{}
	}
	ending := map[string]provider.Exhaustion{}
	for budget, n := range left {
		p.paces[budget] = p.paces[budget].after(now, n)
		if lasts, ends := p.paces[budget].lasts(n); ends {
			ending[budget] = provider.Exhaustion{Left: n, In: lasts}
		}
	}
	return ending
}

// after is the pace with one measurement more, if it is time for one.
func (p pace) after(now time.Time, left int64) pace {
	passed := now.Sub(p.seen)
	switch {
	case p.seen.IsZero():
		return pace{left: left, seen: now}
	case passed < paceEvery:
		return p
	}
	weight := 1 - math.Exp(-passed.Seconds()/paceMemory.Seconds())
	lately := float64(p.left-left) / passed.Seconds()
	return pace{left: left, seen: now, perSecond: p.perSecond + weight*(lately-p.perSecond)}
}

// lasts is how long so much lasts at this pace; false when it does not end in sight.
func (p pace) lasts(left int64) (time.Duration, bool) {
	seconds := float64(left) / p.perSecond
	if p.perSecond <= 0 || seconds > paceHorizon.Seconds() {
		return 0, false
	}
	return time.Duration(seconds * float64(time.Second)).Truncate(time.Minute), true
}
