package provision

import (
	"context"
	"sync"
	"time"
)

// eager is the part of the idle duration that the first pods after a quiet spell
// wait for each other. They should not wait a whole second for pods that may not
// come; those that do come during the work are gathered meanwhile.
const eager = 10

// urgent is how long a batch stays open once pods are in it that lose their machine
// without being asked: what Azure takes within seconds goes into one plan, and a
// stream of notices does not hold up the first of them.
const urgent = 100 * time.Millisecond

// Batcher gathers pods that need room. It fires soon after the first one when
// nothing happened for a while, and otherwise when no new pod came for Idle or
// the batch has been open for Max. Pods in a hurry close it at once.
type Batcher struct {
	idle, longest time.Duration
	kick, rush    chan struct{}

	mu    sync.Mutex
	known map[string]bool // pods of the open batch

	quietSince time.Time // when the last batch was handed out
}

// NewBatcher returns a Batcher; zero durations mean 1 s and 10 s.
func NewBatcher(idle, longest time.Duration) *Batcher {
	if idle <= 0 {
		idle = time.Second
	}
	if longest <= 0 {
		longest = 10 * time.Second
	}
	return &Batcher{idle: idle, longest: longest, kick: make(chan struct{}, 1), rush: make(chan struct{}, 1), known: map[string]bool{}}
}

// Trigger adds a pod to the open batch; "" asks for a batch without naming one. A
// pod that is in it already does not keep it open longer. It never blocks.
func (b *Batcher) Trigger(pod string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known[pod] {
		return
	}
	select {
	case b.kick <- struct{}{}:
		b.known[pod] = true
	default:
		// A kick is waiting already. Remembering more would fill the memory of a
		// standby, which is triggered for weeks and never waits for a batch.
	}
}

// Hurry asks for a batch within a tenth of a second, for a pod whose machine is taken
// away. It never blocks.
func (b *Batcher) Hurry(string) {
	select {
	case b.rush <- struct{}{}:
	default: // somebody is in a hurry already
	}
}

// Wait returns when a batch is due, at the latest after retry: pods that nothing
// could host may have become hostable without anybody saying so. It reports false
// when the context ends.
func (b *Batcher) Wait(ctx context.Context, retry time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-b.kick:
		b.gather(ctx, time.After(b.longest))
	case <-b.rush:
		b.gather(ctx, time.After(urgent))
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
		gap = b.idle / eager
	}
	rush := b.rush
	for {
		select {
		case <-ctx.Done():
			return
		case <-closing:
			return
		case <-time.After(gap):
			return
		case <-rush:
			closing, rush = time.After(min(urgent, b.longest)), nil // only the first in a hurry sets the time
		case <-b.kick:
		}
	}
}
