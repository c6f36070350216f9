// SPDX-License-Identifier: Apache-2.0

package termination

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	shortestRetry = time.Second // the drain itself runs once a second
	longestRetry  = 10 * time.Second
)

// backoffs remembers which pods are not to be asked again yet, and why each is still there.
// Forgetting that is harmless. The zero value remembers no pod.
type backoffs struct {
	mu   sync.Mutex
	of   map[types.UID]backoff
	full int // how many pods are remembered before deleted ones are looked for
}

// leastHeld is how many pods are remembered at least before any is forgotten.
const leastHeld = 256

type backoff struct {
	until time.Time
	next  time.Duration
	why   holdup
}

// due reports whether the pod may be asked now.
func (b *backoffs) due(uid types.UID, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !now.Before(b.of[uid].until)
}

// hold doubles the time until the pod is asked again, and reports whether the reason is new.
func (b *backoffs) hold(uid types.UID, why holdup) (news bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.of == nil {
		b.of = map[types.UID]backoff{}
	}
	former := b.of[uid]
	next := max(former.next, shortestRetry)
	b.of[uid] = backoff{until: time.Now().Add(next), next: min(2*next, longestRetry), why: why}
	if len(b.of) > max(leastHeld, b.full) {
		b.sweep()
	}
	return former.why != why
}

// sweep forgets pods whose requests ended long ago: most are deleted. It runs when twice as many
// pods are remembered as it kept the last time.
func (b *backoffs) sweep() {
	maps.DeleteFunc(b.of, func(_ types.UID, held backoff) bool { return time.Since(held.until) > longestRetry })
	b.full = 2 * len(b.of)
}

// why returns why the pod is still there; the zero holdup when it was not held back.
func (b *backoffs) why(uid types.UID) holdup {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of[uid].why
}

func (b *backoffs) forget(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.of, uid)
}
