// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"maps"
	"math"
	"sync"
	"time"

	"github.com/karve-dev/karve/provider"
)

// pressure measures how fast quotas shrink. The zero pressure has no measurements.
type pressure struct {
	mu    sync.Mutex
	paces map[string]pace // by quota name
}

// A pace is how fast a quota shrinks.
type pace struct {
	left      int64
	seen      time.Time
	perSecond float64 // negative while it grows
}

const (
	// paceMemory is the averaging time of a pace: it hides bursts and shows trends.
	paceMemory = 10 * time.Minute
	// paceEvery is the interval of measurements.
	paceEvery = 30 * time.Second
	// paceHorizon is how far ahead a pace is extrapolated.
	paceHorizon = 24 * time.Hour
)

// observe measures what is left, and returns the quotas that will be used up within a day at
// this pace. Times are whole minutes, so that they do not change all the time.
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

// after returns the pace with one more measurement, if it is due.
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

// lasts returns how long the quota lasts at this pace; false when that is beyond paceHorizon.
func (p pace) lasts(left int64) (time.Duration, bool) {
	seconds := float64(left) / p.perSecond
	if p.perSecond <= 0 || seconds > paceHorizon.Seconds() {
		return 0, false
	}
	return time.Duration(seconds * float64(time.Second)).Truncate(time.Minute), true
}

// tidy forgets the paces of quotas that no node class uses: after so long an old measurement
// hardly matters.
func (p *pressure) tidy(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.paces, func(_ string, x pace) bool { return now.Sub(x.seen) > 6*paceMemory })
}
