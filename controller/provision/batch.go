// SPDX-License-Identifier: Apache-2.0

package provision

import (
	"context"
	"sync"
	"time"
)

// firstPodsDivisor divides the idle duration for the first pods after a quiet time. They should
// not wait a whole second for pods that may not come; pods that are created meanwhile go into the
// next batch.
const firstPodsDivisor = 10

// urgentWindow is how long a batch stays open once it has pods whose node the cloud interrupts: all
// interruptions within that time go into one plan, and a stream of notices does not delay the
// first of them.
const urgentWindow = 100 * time.Millisecond

// Batcher gathers pods that need capacity. A batch is due soon after the first pod if nothing
// happened for a while, and otherwise when no new pod came for the idle duration or the batch has
// been open for the longest duration. Urgent pods close it at once.
type Batcher struct {
	idle, longest time.Duration
	triggered     chan struct{}
	urgent        chan struct{}

	mu    sync.Mutex
	known map[string]bool // pods of the open batch

	quietSince time.Time // when the last batch was due
}

// NewBatcher returns a Batcher; zero durations mean 1 s and 10 s.
func NewBatcher(idle, longest time.Duration) *Batcher {
	if idle <= 0 {
		idle = time.Second
	}
	if longest <= 0 {
		longest = 10 * time.Second
	}
	return &Batcher{idle: idle, longest: longest, triggered: make(chan struct{}, 1), urgent: make(chan struct{}, 1), known: map[string]bool{}}
}

// Trigger adds a pod to the open batch; "" asks for a batch without naming a pod. A pod that is
// already in the batch does not keep it open longer. Trigger never blocks.
func (b *Batcher) Trigger(pod string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known[pod] {
		return
	}
	select {
	case b.triggered <- struct{}{}:
		b.known[pod] = true
	default:
		// A trigger is pending already. Recording more pods would fill the memory of a standby
		// replica, which is triggered for weeks and never waits for a batch.
	}
}

// Urgent requests a batch within a tenth of a second, for a pod whose node is interrupted. It
// never blocks.
func (b *Batcher) Urgent(string) {
	select {
	case b.urgent <- struct{}{}:
	default: // an urgent trigger is pending already
	}
}

// Wait returns when a batch is due, at the latest after retry: pods that fitted nowhere may fit
// now without any event. It reports false when the context ends.
func (b *Batcher) Wait(ctx context.Context, retry time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-b.triggered:
		b.gather(ctx, time.After(b.longest))
	case <-b.urgent:
		b.gather(ctx, time.After(urgentWindow))
	case <-time.After(retry):
	}
	b.mu.Lock()
	clear(b.known)
	b.mu.Unlock()
	b.quietSince = time.Now()
	return ctx.Err() == nil
}

func (b *Batcher) gather(ctx context.Context, closing <-chan time.Time) {
	gap := b.idle
	if time.Since(b.quietSince) > b.idle {
		gap = b.idle / firstPodsDivisor
	}
	urgent := b.urgent
	for {
		select {
		case <-ctx.Done():
			return
		case <-closing:
			return
		case <-time.After(gap):
			return
		case <-urgent:
			// Only the first urgent trigger sets the time.
			closing, urgent = time.After(min(urgentWindow, b.longest)), nil
		case <-b.triggered:
		}
	}
}
