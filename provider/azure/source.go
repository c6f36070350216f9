// Package cached keeps the last good results of slow requests. A source keeps one value and its
// version, and says since when it cannot be read; a table keeps facts by key, for a time to live.
// In both, a failed or implausible result never replaces a good one, concurrent callers share one
// request, and a caller that gives up does not cancel it. What is requested, and from where, is
// the caller's business.
package azure

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/karve-dev/karve/internal/panics"
	"github.com/karve-dev/karve/provider/azure/internal/armerr"
)

// An env is what reading in the background takes.
type env struct {
	now func() time.Time
	// patience is how long callers wait for data that they can do without.
	patience time.Duration
	// panics receives the panics of the goroutines that read; nil recovers nothing.
	panics *panics.Reporter
}

// A source caches the last good result of a slow request. A failed or implausible result never
// replaces a good one; it is recorded as a problem instead.
type source[T any] struct {
	name string
	// load sends the request.
	load func(context.Context) (T, error)
	// same reports whether two values are equal for the version; the version changes when they
	// are not.
	same func(a, b T) bool
	// doubt returns an error for a value that is implausible after the last one; nil accepts
	// all.
	doubt func(last, next T) error
	// nothing reports whether a value may be empty by mistake, which is then read again soon;
	// nil means never.
	nothing func(T) bool
	env

	mu      sync.Mutex
	asking  *asking // nil while no request is in flight
	value   T
	version uint64 // 0 until the first result
	taken   time.Time
	tried   time.Time
	failing error
	since   time.Time // start of failing
}

// An asking is a request in flight. It continues when the callers that wait for it give up,
// because other callers share its result.
type asking struct {
	started time.Time
	cancel  context.CancelFunc
	done    chan struct{}
	err     error // safe for concurrent reads, once done
}

// newAsking returns an asking, and a context for its request that outlives ctx.
func newAsking(ctx context.Context, now time.Time) (*asking, context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), longestAsking)
	return &asking{started: now, cancel: cancel, done: make(chan struct{})}, ctx
}

// answered records the result.
func (a *asking) answered(err error) {
	a.err = err
	a.cancel()
	close(a.done)
}

// stop cancels the request, and returns when it has ended. It accepts nil.
func (a *asking) stop() {
	if a != nil {
		a.cancel()
		<-a.done
	}
}

const (
	// retryFirst is how long a source without any result waits between attempts, so that many
	// callers do not become many requests.
	retryFirst = 3 * time.Second
	// longestAsking is the timeout of a request, pages and retries included.
	longestAsking = 5 * time.Minute
	// nothingFor is how long a value that may be empty by mistake is kept.
	nothingFor = 30 * time.Minute
)

// errSlow reports that there is no result yet and the caller stopped waiting.
var errSlow = errors.New("going on without")

func (a *asking) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-a.done:
		return a.err
	}
}

// waitBriefly waits until patience has passed since the start of the request.
func (a *asking) waitBriefly(ctx context.Context, now time.Time, patience time.Duration) error {
	t := time.NewTimer(a.started.Add(patience).Sub(now))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-a.done:
		return a.err
	case <-t.C:
		return fmt.Errorf("no answer for %v: %w", patience, errSlow)
	}
}

// An answer is the current state of a source.
type answer[T any] struct {
	value   T
	version uint64
	taken   time.Time
	problem string
}

// ensure reads once if there is no result yet.
func (s *source[T]) ensure(ctx context.Context) error {
	if known, err := s.settled(); known {
		return err
	}
	return s.refresh(ctx)
}

// tryRead is like ensure for data that callers can do without: it waits briefly, and only the
// first time. An error becomes the source's problem.
func (s *source[T]) tryRead(ctx context.Context) {
	if known, _ := s.settled(); known {
		return
	}
	failed := s.read().problem != ""
	a := s.ask(ctx)
	if failed {
		return
	}
	if err := a.waitBriefly(ctx, s.now(), s.patience); errors.Is(err, errSlow) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.asking == a {
			_ = s.fail(armerr.Wrap(err, "reading %s", s.name))
		}
	}
}

// refresh reads again.
func (s *source[T]) refresh(ctx context.Context) error {
	return s.ask(ctx).wait(ctx)
}

// refreshOlder reads again unless the last result was requested after t. It waits only briefly.
func (s *source[T]) refreshOlder(ctx context.Context, t time.Time) error {
	for !s.read().taken.After(t) {
		a := s.ask(ctx)
		if err := a.waitBriefly(ctx, s.now(), s.patience); err != nil {
			return err
		}
	}
	return nil
}

func (s *source[T]) settled() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.version > 0 {
		return true, nil
	}
	return s.failing != nil && s.now().Sub(s.tried) < retryFirst, s.failing
}

// ask starts a request, unless one is in flight.
func (s *source[T]) ask(ctx context.Context) *asking {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asking != nil {
		return s.asking
	}
	gone := ctx.Err()
	a, ctx := newAsking(ctx, s.now())
	if gone != nil {
		a.answered(gone)
		return a
	}
	s.asking = a
	s.panics.Go(panicsHere, func() { s.answer(ctx, a) })
	return a
}

// panicsHere is the name under which panics of the provider's goroutines are counted.
const panicsHere = "azure"

// answer sends the request and wakes the callers that wait. A panic counts as an error.
func (s *source[T]) answer(ctx context.Context, a *asking) {
	var next T
	err := s.panics.Do(panicsHere, func() (err error) { next, err = s.load(ctx); return err })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asking = nil
	a.answered(s.panics.Do(panicsHere, func() error { return s.take(next, err, a.started) }))
}

// stop cancels a request in flight.
func (s *source[T]) stop() {
	s.mu.Lock()
	a := s.asking
	s.mu.Unlock()
	a.stop()
}

// take stores a value that is plausible. Callers hold the lock.
func (s *source[T]) take(next T, err error, asked time.Time) error {
	if err == nil && s.version > 0 && s.doubt != nil {
		err = s.doubt(s.value, next)
	}
	if err != nil {
		return s.fail(armerr.Shareable(armerr.Wrap(err, "reading %s", s.name)))
	}
	if s.version == 0 || !s.same(s.value, next) {
		s.version++
	}
	s.value = next
	s.taken, s.tried, s.failing = asked, asked, nil
	return nil
}

// fail records an error and when it occurred. Callers hold the lock.
func (s *source[T]) fail(err error) error {
	s.tried = s.now()
	if s.failing == nil {
		s.since = s.tried
	}
	s.failing = err
	return err
}

func (s *source[T]) read() answer[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := answer[T]{value: s.value, version: s.version, taken: s.taken}
	if s.failing != nil {
		a.problem = fmt.Sprintf("%v (since %s)", s.failing, s.since.UTC().Format(time.RFC3339))
	}
	return a
}

// keep reads at once, so that the first caller need not wait, and reads again at the interval
// every until ctx ends, sooner after a failure.
func (s *source[T]) keep(ctx context.Context, every time.Duration) {
	_ = s.ensure(ctx) // the source keeps the error
	for {
		wait := every
		switch known := s.read(); {
		case known.problem != "":
			wait = min(every, time.Minute)
		case s.nothing != nil && s.nothing(known.value):
			wait = min(every, nothingFor)
		}
		if !pause(ctx, wait) {
			return
		}
		_ = s.refresh(ctx) // the source keeps the error
	}
}

// pause waits for d and reports false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// share runs read once for all concurrent callers with the same key. A caller that gives up does
// not cancel the read, because the others share its result.
func share[T any](ctx context.Context, inFlight *reads, key string, p *panics.Reporter, read func(context.Context) (T, error)) (T, error) {
	answers := inFlight.DoChan(key, func() (any, error) {
		var out T
		err := p.Do(panicsHere, func() (err error) { out, err = read(context.WithoutCancel(ctx)); return err })
		return out, err
	})
	select {
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	case a := <-answers:
		return a.Val.(T), a.Err
	}
}

// reads are the reads in flight, by key; see share.
type reads = singleflight.Group

// A holdOff is the last failure and when to try again: after 3 seconds, and twice as long each
// time, up to a minute.
type holdOff struct {
	err   error
	wait  time.Duration
	until time.Time
}

func (h *holdOff) failed(err error, now time.Time) {
	if now.Before(h.until) {
		return // a concurrent attempt
	}
	h.wait = min(max(2*h.wait, retryFirst), time.Minute)
	h.err, h.until = err, now.Add(h.wait)
}
