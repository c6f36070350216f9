// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"slices"
	"strings"
	"time"
)

// A shortage is a while in which other clients take what flows into buckets, or most of it, as
// they took what was in them when it began.
type shortage struct {
	fault    string // its name in the catalogue
	of       func(key string) bool
	from, to time.Time
	left     float64 // the share that is left
}

// How long a shortage lasts, at TimeScale 1.
const (
	exhaustedFor = 20 * time.Second
	spendsFor    = time.Minute
)

// shortagesKept is for how long shortages that are over are remembered: by then each bucket is
// full again, however long ago it was last asked.
const shortagesKept = time.Hour

// begin has a shortage begin now; one of the same fault that is not over goes on for longer.
func (t *throttles) begin(s shortage, d time.Duration) {
	t.clock.Lock()
	defer t.clock.Unlock()
	now := time.Now()
	s.from, s.to = now, now.Add(t.clock.scaled(d))
	for key, b := range t.buckets {
		if t.refill(key, b, now); s.of(key) {
			b.tokens *= s.left
		}
	}
	for i := range t.shortages {
		if before := &t.shortages[i]; before.fault == s.fault && !before.to.Before(now) {
			before.to = s.to
			return
		}
	}
	t.shortages = slices.DeleteFunc(t.shortages, func(over shortage) bool { return now.Sub(over.to) > shortagesKept })
	t.shortages = append(t.shortages, s)
}

// cut halves every limit, for ever.
func (t *throttles) cut(fault string) {
	t.clock.Lock()
	defer t.clock.Unlock()
	for key, b := range t.buckets {
		t.refill(key, b, time.Now())
		b.halve(fault)
	}
	t.halved++
}

func (b *bucket) halve(fault string) {
	b.cut = fault
	b.limit.perMinute, b.limit.burst = b.limit.perMinute/2, b.limit.burst/2
	b.tokens = min(b.tokens, b.limit.burst)
}

// refill lets flow in what has come since the bucket was last asked.
func (t *throttles) refill(key string, b *bucket, now time.Time) {
	if t.clock.scale == 0 {
		b.tokens = b.limit.burst
		return
	}
	flowed := now.Sub(b.last)
	for _, s := range t.shortages {
		if s.of(key) {
			flowed -= time.Duration((1 - s.left) * float64(s.overlap(b.last, now)))
		}
	}
	b.tokens = min(b.limit.burst, b.tokens+max(flowed, 0).Minutes()/t.clock.scale*b.limit.perMinute)
	b.last = now
}

// overlap is how much of the shortage lies between two moments.
func (s *shortage) overlap(from, to time.Time) time.Duration {
	if from.Before(s.from) {
		from = s.from
	}
	if to.After(s.to) {
		to = s.to
	}
	return max(to.Sub(from), 0)
}

// shortageOf is the worst shortage of a bucket now; nil when there is none.
func (t *throttles) shortageOf(key string, now time.Time) (worst *shortage) {
	for i := range t.shortages {
		if s := &t.shortages[i]; s.of(key) && s.to.After(now) && (worst == nil || s.left < worst.left) {
			worst = s
		}
	}
	return worst
}

// wait is how long a client has to wait for a token that would come after d.
func (s *shortage) wait(d time.Duration, now time.Time) time.Duration {
	ends := s.to.Sub(now) + d
	if s.left == 0 {
		return ends
	}
	return min(ends, time.Duration(float64(d)/s.left))
}

// ofAll reports whether a bucket is for all requests of a kind, not for those about one resource.
func ofAll(key string) bool { return !strings.Contains(key, "/subscriptions/") }

// sharedBuckets are those of a prefix that all requests of a kind share. Only of changes to agent
// pools there are none: each pool has its own.
func sharedBuckets(prefix string) func(key string) bool {
	return func(key string) bool {
		return strings.HasPrefix(key, prefix) && (ofAll(key) || prefix == "aks/PUT")
	}
}
