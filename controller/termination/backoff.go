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

// backoffs remembers for which pods a request must not be repeated yet, and why each pod is still
// there. The zero value remembers no pod.
type backoffs struct {
	mu         sync.Mutex
	byPod      map[types.UID]backoff
	sweepAbove int // how many pods are remembered before deleted ones are dropped
}

// minSweep is how many pods are remembered before any is dropped.
const minSweep = 256

type backoff struct {
	until  time.Time
	next   time.Duration
	reason waitReason
}

// due reports whether the request for the pod may be repeated now.
func (b *backoffs) due(uid types.UID, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !now.Before(b.byPod[uid].until)
}

// delay doubles the time until the request is repeated, and reports whether the reason is new.
func (b *backoffs) delay(uid types.UID, why waitReason) (changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byPod == nil {
		b.byPod = map[types.UID]backoff{}
	}
	last := b.byPod[uid]
	next := max(last.next, shortestRetry)
	b.byPod[uid] = backoff{until: time.Now().Add(next), next: min(2*next, longestRetry), reason: why}
	if len(b.byPod) > max(minSweep, b.sweepAbove) {
		b.sweep()
	}
	return last.reason != why
}

// sweep drops pods whose requests ended long ago: most are deleted. It runs when twice as many
// pods are remembered as it kept the last time.
func (b *backoffs) sweep() {
	maps.DeleteFunc(b.byPod, func(_ types.UID, old backoff) bool { return time.Since(old.until) > longestRetry })
	b.sweepAbove = 2 * len(b.byPod)
}

// reason returns why the pod is still there; the zero waitReason when no request for it was
// delayed.
func (b *backoffs) reason(uid types.UID) waitReason {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.byPod[uid].reason
}

// reset allows the next request for the pod at once.
func (b *backoffs) reset(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.byPod, uid)
}
