// SPDX-License-Identifier: Apache-2.0

// Package leader keeps a process that no longer leads from writing.
//
// A process that was stopped for a while, and then continues, is in the middle of what it did as the
// leader, and learns only later that another leads now. The Fence is asked before each write, to
// the cluster and to the cloud.
package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// ErrNotLeading reports that another process leads, or led meanwhile.
var ErrNotLeading = errors.New("this process does not lead any more")

// RefusedError reports a write that the Fence did not let pass. It was not sent, so that it certainly
// had no effect.
type RefusedError struct {
	Err error // ErrNotLeading with the holder of the lease, or why the lease could not be read
}

func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *RefusedError) Unwrap() error { return e.Err }

// Fence knows whether this process leads. The zero Fence, and nil, let everything pass: there is
// no election. See Guard.
type Fence struct {
	held, reader resourcelock.Interface
	trust        time.Duration

	asking chan struct{} // holds an element while one goroutine reads the lease; take it before mu

	mu        sync.Mutex
	confirmed time.Time // when the newest successful renewal or read of the lease began
	epoch     int       // how often the lease had changed hands when this process got it
}

// Guard has the Fence follow an election. It returns the lock to hold the election with, which
// passes everything on to held. reader is another lock on the same lease: locks are not safe for
// concurrent use. trust is for how long after a renewal no other process can lead.
func (f *Fence) Guard(held, reader resourcelock.Interface, trust time.Duration) resourcelock.Interface {
	f.held, f.reader, f.trust = held, reader, trust
	f.asking = make(chan struct{}, 1)
	return &observedLock{held, f}
}

// Check returns a RefusedError unless this process leads. It reads the lease only if the last renewal is
// too long ago, as it is after a pause.
func (f *Fence) Check(ctx context.Context) error {
	if f == nil || f.held == nil || f.leads(time.Now()) {
		return nil
	}
	select {
	case f.asking <- struct{}{}:
		defer func() { <-f.asking }()
	case <-ctx.Done():
		return &RefusedError{fmt.Errorf("confirming that this process still leads: %w", context.Cause(ctx))}
	}
	now := time.Now()
	if f.leads(now) {
		return nil // confirmed while it waited
	}
	record, _, err := f.reader.Get(ctx)
	if err != nil {
		return &RefusedError{fmt.Errorf("confirming that this process still leads: %w", err)}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if record.HolderIdentity != f.held.Identity() || record.LeaderTransitions != f.epoch {
		return &RefusedError{fmt.Errorf("%w: the lease is held by %q", ErrNotLeading, record.HolderIdentity)}
	}
	f.confirmed = now
	return nil
}

// leads reports whether the last confirmation is recent by both clocks: the wall clock may be set
// back, and the monotonic one stands still while the machine is suspended.
func (f *Fence) leads(now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	monotonic, wall := now.Sub(f.confirmed), now.Round(0).Sub(f.confirmed.Round(0))
	return !f.confirmed.IsZero() && monotonic < f.trust && wall < f.trust
}

// renewed records that the lease was written with the record at the time; one without a holder
// releases it.
func (f *Fence) renewed(at time.Time, record resourcelock.LeaderElectionRecord) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.confirmed, f.epoch = at, record.LeaderTransitions; record.HolderIdentity == "" {
		f.confirmed = time.Time{}
	}
}

// observedLock tells the Fence of each renewal.
type observedLock struct {
	resourcelock.Interface
	fence *Fence
}

func (l *observedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(record, func() error { return l.Interface.Create(ctx, record) })
}

func (l *observedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(record, func() error { return l.Interface.Update(ctx, record) })
}

func (l *observedLock) write(record resourcelock.LeaderElectionRecord, do func() error) error {
	began := time.Now() // others count from when the API server has it, which is later
	err := do()
	if err == nil {
		l.fence.renewed(began, record)
	}
	return err
}
