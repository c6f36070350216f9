package azure

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// A source holds the last good answer to a question that is slow to ask. A
// failed or implausible answer never replaces a good one; it is remembered as a
// problem instead.
type source[T any] struct {
	name string
	// load asks the cloud.
	load func(context.Context) (T, error)
	// same reports whether two answers are equal in what the version stands for; it
	// moves when they are not.
	same func(a, b T) bool
	// doubt refuses an answer that cannot be true in the light of the last one; nil believes all.
	doubt func(last, next T) error
	now   func() time.Time

	asking gate // held while loading

	mu      sync.Mutex
	value   T
	version uint64 // 0 until a first answer
	taken   time.Time
	tried   time.Time
	failing error
	since   time.Time // of failing
}

// retryFirst is how long a source that never had an answer waits between
// attempts, so that many callers do not become many requests.
const retryFirst = 3 * time.Second

// An answer is what a source knows.
type answer[T any] struct {
	value   T
	version uint64
	taken   time.Time
	problem string
}

// ensure asks once if there is no answer yet.
func (s *source[T]) ensure(ctx context.Context) error {
	if known, err := s.settled(); known {
		return err
	}
	if err := s.asking.lock(ctx); err != nil {
		return err
	}
	defer s.asking.unlock()
	if known, err := s.settled(); known {
		return err
	}
	return s.ask(ctx)
}

// refresh asks anew.
func (s *source[T]) refresh(ctx context.Context) error {
	if err := s.asking.lock(ctx); err != nil {
		return err
	}
	defer s.asking.unlock()
	return s.ask(ctx)
}

// refreshOlder asks anew unless an answer was asked for after t.
func (s *source[T]) refreshOlder(ctx context.Context, t time.Time) error {
	if err := s.asking.lock(ctx); err != nil {
		return err
	}
	defer s.asking.unlock()
	if s.read().taken.After(t) {
		return nil
	}
	return s.ask(ctx)
}

func (s *source[T]) settled() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.version > 0 {
		return true, nil
	}
	return s.failing != nil && s.now().Sub(s.tried) < retryFirst, s.failing
}

func (s *source[T]) ask(ctx context.Context) error {
	started := s.now()
	next, err := s.load(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && s.version > 0 && s.doubt != nil {
		err = s.doubt(s.value, next)
	}
	if err != nil {
		return s.fail(ctx, started, wrap(err, "reading %s", s.name))
	}
	if s.version == 0 || !s.same(s.value, next) {
		s.version++
	}
	s.value = next
	s.taken, s.tried, s.failing = started, started, nil
	return nil
}

func (s *source[T]) fail(ctx context.Context, started time.Time, err error) error {
	if ctx.Err() != nil {
		return err // the caller gave up; that says nothing about the cloud
	}
	if s.failing == nil {
		s.since = started
	}
	s.failing, s.tried = err, started
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

// keep asks at once, so that the first who needs an answer need not wait, and
// refreshes every so often until ctx ends, sooner after a failure.
func (s *source[T]) keep(ctx context.Context, every time.Duration) {
	_ = s.ensure(ctx) // remembered by the source as its problem
	for {
		wait := every
		if s.read().problem != "" {
			wait = min(every, time.Minute)
		}
		if !pause(ctx, wait) {
			return
		}
		_ = s.refresh(ctx) // remembered by the source as its problem
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

// together reads what everybody who asks meanwhile gets too. A caller that gives up leaves
// alone: the others' answer is not its to take away.
func together[T any](ctx context.Context, group *singleflight.Group, what string, read func(context.Context) (T, error)) (T, error) {
	answers := group.DoChan(what, func() (any, error) { return read(context.WithoutCancel(ctx)) })
	select {
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	case a := <-answers:
		return a.Val.(T), a.Err
	}
}

// A gate is a mutex whose wait ends with the caller's context. Make one with newGate.
type gate chan struct{}

func newGate() gate { return make(gate, 1) }

func (g gate) lock(ctx context.Context) error {
	select {
	case g <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g gate) unlock() { <-g }
