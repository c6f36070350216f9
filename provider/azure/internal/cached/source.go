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
	// Validate returns an error for a value that is implausible after the last one; nil accepts
	// all.
	Validate func(last, next T) error
	// MaybeEmpty reports whether a value may be empty by mistake, which is then read again soon;
	// nil means never.
	MaybeEmpty func(T) bool
	Env

	mu           sync.Mutex
	request      *Request // nil while no request is in flight
	value        T
	version      uint64 // 0 until the first result
	readAt       time.Time
	triedAt      time.Time
	lastErr      error
	failingSince time.Time // start of failing
}

// A State is the current state of a source.
type State[T any] struct {
	Value   T
	Version uint64
	ReadAt  time.Time
	Problem string
}

// Ensure reads once if there is no result yet.
func (s *Source[T]) Ensure(ctx context.Context) error {
	if known, err := s.known(); known {
		return err
	}
	return s.Refresh(ctx)
}

// TryEnsure is like Ensure for data that callers can do without: it waits briefly, and only the
// first time. An error becomes the source's problem.
func (s *Source[T]) TryEnsure(ctx context.Context) {
	if known, _ := s.known(); known {
		return
	}
	failed := s.State().Problem != ""
	req := s.Request(ctx)
	if failed {
		return
	}
	if err := req.WaitBriefly(ctx, s.Now(), s.Patience); errors.Is(err, errNoAnswerYet) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.request == req {
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
	for !s.State().ReadAt.After(t) {
		req := s.Request(ctx)
		if err := req.WaitBriefly(ctx, s.Now(), s.Patience); err != nil {
			return err
		}
	}
	return nil
}

// known reports whether a value is known, or the last attempt failed a moment ago.
func (s *Source[T]) known() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.version > 0 {
		return true, nil
	}
	return s.lastErr != nil && s.Now().Sub(s.triedAt) < firstRetry, s.lastErr
}

// Request starts a request, unless one is in flight.
func (s *Source[T]) Request(ctx context.Context) *Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.request != nil {
		return s.request
	}
	ctxErr := ctx.Err()
	req, ctx := NewRequest(ctx, s.Now())
	if ctxErr != nil {
		req.Finish(ctxErr)
		return req
	}
	s.request = req
	s.Panics.Go(PanicsName, func() { s.load(ctx, req) })
	return req
}

// load sends the request and wakes the callers that wait. A panic counts as an error.
func (s *Source[T]) load(ctx context.Context, req *Request) {
	var next T
	err := s.Panics.Do(PanicsName, func() (err error) { next, err = s.Load(ctx); return err })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.request = nil
	req.Finish(s.Panics.Do(PanicsName, func() error { return s.store(next, err, req.started) }))
}

// Stop cancels a request in flight.
func (s *Source[T]) Stop() {
	s.mu.Lock()
	req := s.request
	s.mu.Unlock()
	req.Stop()
}

// store stores a value that is plausible. Callers hold the lock.
func (s *Source[T]) store(next T, err error, startedAt time.Time) error {
	if err == nil && s.version > 0 && s.Validate != nil {
		err = s.Validate(s.value, next)
	}
	if err != nil {
		return s.fail(armerr.Shareable(armerr.Wrap(err, "reading %s", s.Name)))
	}
	if s.version == 0 || !s.Same(s.value, next) {
		s.version++
	}
	s.value = next
	s.readAt, s.triedAt, s.lastErr = startedAt, startedAt, nil
	return nil
}

// fail records an error and when it occurred. Callers hold the lock.
func (s *Source[T]) fail(err error) error {
	s.triedAt = s.Now()
	if s.lastErr == nil {
		s.failingSince = s.triedAt
	}
	s.lastErr = err
	return err
}

// State returns the current state.
func (s *Source[T]) State() State[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := State[T]{Value: s.value, Version: s.version, ReadAt: s.readAt}
	if s.lastErr != nil {
		state.Problem = fmt.Sprintf("%v (since %s)", s.lastErr, s.failingSince.UTC().Format(time.RFC3339))
	}
	return state
}

// KeepFresh reads at once, so that the first caller need not wait, and reads again at the interval
// every until ctx ends, sooner after a failure.
func (s *Source[T]) KeepFresh(ctx context.Context, every time.Duration) {
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
