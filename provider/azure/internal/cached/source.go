// SPDX-License-Identifier: Apache-2.0

// Package cached keeps the last good results of slow requests. A Source keeps one value and its
// version, and reports since when it cannot be read; a Table keeps facts by key, for a time to
// live. In both, a failed or implausible result never replaces a good one, concurrent callers
// share one request, and a caller that gives up does not cancel it. The caller decides what is
// requested, and from where.
package cached

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/karve-dev/karve/internal/panics"
	"github.com/karve-dev/karve/provider/azure/internal/armerr"
)

// An Env holds what reading in the background needs.
type Env struct {
	Now func() time.Time
	// Patience is how long callers wait for data that they can do without.
	Patience time.Duration
	// Panics receives the panics of the goroutines that read; nil recovers nothing.
	Panics *panics.Reporter
}

// A Source caches the last good result of a slow request. A failed or implausible result never
// replaces a good one; it is recorded as a problem instead.
type Source[T any] struct {
	Name string
	// Load sends the request.
	Load func(context.Context) (T, error)
	// Same reports whether two values are equal for the version; the version changes when they
	// are not.
	Same func(a, b T) bool
	// Doubt returns an error for a value that is implausible after the last one; nil accepts
	// all.
	Doubt func(last, next T) error
	// MaybeEmpty reports whether a value may be empty by mistake, which is then read again soon;
	// nil means never.
	MaybeEmpty func(T) bool
	Env

	mu      sync.Mutex
	request *Request // nil while no request is in flight
	value   T
	version uint64 // 0 until the first result
	taken   time.Time
	tried   time.Time
	failing error
	since   time.Time // start of failing
}

// A State is the current state of a source.
type State[T any] struct {
	Value   T
	Version uint64
	Taken   time.Time
	Problem string
}

// Ensure reads once if there is no result yet.
func (s *Source[T]) Ensure(ctx context.Context) error {
	if known, err := s.settled(); known {
		return err
	}
	return s.Refresh(ctx)
}

// TryEnsure is like Ensure for data that callers can do without: it waits briefly, and only the
// first time. An error becomes the source's problem.
func (s *Source[T]) TryEnsure(ctx context.Context) {
	if known, _ := s.settled(); known {
		return
	}
	failed := s.State().Problem != ""
	a := s.Request(ctx)
	if failed {
		return
	}
	if err := a.WaitBriefly(ctx, s.Now(), s.Patience); errors.Is(err, errNoAnswerYet) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.request == a {
			_ = s.fail(armerr.Wrap(err, "reading %s", s.Name))
		}
	}
}

// Refresh reads again.
func (s *Source[T]) Refresh(ctx context.Context) error {
	return s.Request(ctx).Wait(ctx)
}

// RefreshOlder reads again unless the last result was requested after t. It waits only briefly.
func (s *Source[T]) RefreshOlder(ctx context.Context, t time.Time) error {
	for !s.State().Taken.After(t) {
		a := s.Request(ctx)
		if err := a.WaitBriefly(ctx, s.Now(), s.Patience); err != nil {
			return err
		}
	}
	return nil
}

// settled reports whether a value is known, or the last attempt failed a moment ago.
func (s *Source[T]) settled() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.version > 0 {
		return true, nil
	}
	return s.failing != nil && s.Now().Sub(s.tried) < retryFirst, s.failing
}

// Request starts a request, unless one is in flight.
func (s *Source[T]) Request(ctx context.Context) *Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.request != nil {
		return s.request
	}
	gone := ctx.Err()
	a, ctx := NewRequest(ctx, s.Now())
	if gone != nil {
		a.Finish(gone)
		return a
	}
	s.request = a
	s.Panics.Go(PanicsName, func() { s.run(ctx, a) })
	return a
}

// run sends the request and wakes the callers that wait. A panic counts as an error.
func (s *Source[T]) run(ctx context.Context, a *Request) {
	var next T
	err := s.Panics.Do(PanicsName, func() (err error) { next, err = s.Load(ctx); return err })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.request = nil
	a.Finish(s.Panics.Do(PanicsName, func() error { return s.take(next, err, a.started) }))
}

// Stop cancels a request in flight.
func (s *Source[T]) Stop() {
	s.mu.Lock()
	a := s.request
	s.mu.Unlock()
	a.Stop()
}

// take stores a value that is plausible. Callers hold the lock.
func (s *Source[T]) take(next T, err error, asked time.Time) error {
	if err == nil && s.version > 0 && s.Doubt != nil {
		err = s.Doubt(s.value, next)
	}
	if err != nil {
		return s.fail(armerr.Shareable(armerr.Wrap(err, "reading %s", s.Name)))
	}
	if s.version == 0 || !s.Same(s.value, next) {
		s.version++
	}
	s.value = next
	s.taken, s.tried, s.failing = asked, asked, nil
	return nil
}

// fail records an error and when it occurred. Callers hold the lock.
func (s *Source[T]) fail(err error) error {
	s.tried = s.Now()
	if s.failing == nil {
		s.since = s.tried
	}
	s.failing = err
	return err
}

// State returns the current state.
func (s *Source[T]) State() State[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := State[T]{Value: s.value, Version: s.version, Taken: s.taken}
	if s.failing != nil {
		a.Problem = fmt.Sprintf("%v (since %s)", s.failing, s.since.UTC().Format(time.RFC3339))
	}
	return a
}

// Keep reads at once, so that the first caller need not wait, and reads again at the interval
// every until ctx ends, sooner after a failure.
func (s *Source[T]) Keep(ctx context.Context, every time.Duration) {
	_ = s.Ensure(ctx) // the source keeps the error
	for {
		wait := every
		switch known := s.State(); {
		case known.Problem != "":
			wait = min(every, time.Minute)
		case s.MaybeEmpty != nil && s.MaybeEmpty(known.Value):
			wait = min(every, EmptyFor)
		}
		if !Pause(ctx, wait) {
			return
		}
		_ = s.Refresh(ctx) // the source keeps the error
	}
}
