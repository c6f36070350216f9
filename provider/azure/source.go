package azure

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/karve-dev/karve/internal/panics"
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
	// nothing reports that an answer may be none, which is asked again before long; nil believes all.
	nothing func(T) bool
	// patience is how long one waits for what can be done without.
	patience time.Duration
	panics   *panics.Reporter

	mu      sync.Mutex
	asking  *asking // nil while nobody asks
	value   T
	version uint64 // 0 until a first answer
	taken   time.Time
	tried   time.Time
	failing error
	since   time.Time // of failing
}

// An asking is a question under way. It goes on when those who wait for its answer give
// up: the answer is not theirs alone.
type asking struct {
	started time.Time
	cancel  context.CancelFunc
	done    chan struct{}
	err     error // that many may read, once done
}

// newAsking is a question asked by somebody who may give up, and the context to ask it with.
func newAsking(ctx context.Context, now time.Time) (*asking, context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), longestAsking)
	return &asking{started: now, cancel: cancel, done: make(chan struct{})}, ctx
}

// answered says what came of it.
func (a *asking) answered(err error) {
	a.err = err
	a.cancel()
	close(a.done)
}

// stop ends the question, and returns when it has ended. A nil one has.
func (a *asking) stop() {
	if a != nil {
		a.cancel()
		<-a.done
	}
}

const (
	// retryFirst is how long a source that never had an answer waits between attempts, so
	// that many callers do not become many requests.
	retryFirst = 3 * time.Second
	// longestAsking is the end of a question that gets no answer, pages and retries included.
	longestAsking = 5 * time.Minute
	// nothingFor is how long an answer that may be none counts.
	nothingFor = 30 * time.Minute
)

// errSlow reports that there is no answer yet. Nobody waits for it any more.
var errSlow = errors.New("going on without")

func (a *asking) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-a.done:
		return a.err
	}
}

// waitBriefly waits until the question is so old.
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
	return s.refresh(ctx)
}

// glance is ensure for what can be done without: it waits briefly, the first time. What goes
// wrong is kept as the source's problem.
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
			_ = s.fail(wrap(err, "reading %s", s.name))
		}
	}
}

// refresh asks anew.
func (s *source[T]) refresh(ctx context.Context) error {
	return s.ask(ctx).wait(ctx)
}

// refreshOlder asks anew unless an answer was asked for after t. It waits briefly.
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

// ask asks, unless somebody does.
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

// panicsHere is where panics of the provider's goroutines are counted.
const panicsHere = "azure"

// answer asks the cloud, and tells those who wait. A panic is a failure like others.
func (s *source[T]) answer(ctx context.Context, a *asking) {
	var next T
	err := s.panics.Do(panicsHere, func() (err error) { next, err = s.load(ctx); return err })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asking = nil
	a.answered(s.panics.Do(panicsHere, func() error { return s.take(next, err, a.started) }))
}

// stop ends a question under way.
func (s *source[T]) stop() {
	s.mu.Lock()
	a := s.asking
	s.mu.Unlock()
	a.stop()
}

// take keeps an answer that is believed. Callers hold the lock.
func (s *source[T]) take(next T, err error, asked time.Time) error {
	if err == nil && s.version > 0 && s.doubt != nil {
		err = s.doubt(s.value, next)
	}
	if err != nil {
		return s.fail(shared(wrap(err, "reading %s", s.name)))
	}
	if s.version == 0 || !s.same(s.value, next) {
		s.version++
	}
	s.value = next
	s.taken, s.tried, s.failing = asked, asked, nil
	return nil
}

// fail remembers a failure, from its end on. Callers hold the lock.
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

// keep asks at once, so that the first who needs an answer need not wait, and
// refreshes every so often until ctx ends, sooner after a failure.
func (s *source[T]) keep(ctx context.Context, every time.Duration) {
	_ = s.ensure(ctx) // remembered by the source as its problem
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
func together[T any](ctx context.Context, group *readings, what string, read func(context.Context) (T, error)) (T, error) {
	answers := group.DoChan(what, func() (any, error) {
		var out T
		err := group.panics.Do(panicsHere, func() (err error) { out, err = read(context.WithoutCancel(ctx)); return err })
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

// readings are what is being read, each thing once; see together.
type readings struct {
	singleflight.Group
	panics *panics.Reporter
}

// A gate is a mutex whose wait ends with the caller's context. Make one with newGate.
type gate chan struct{}

func newGate() gate { return make(gate, 1) }

func (g gate) lock(ctx context.Context) error {
	if g.tryLock() {
		return nil
	}
	select {
	case g <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g gate) tryLock() bool {
	select {
	case g <- struct{}{}:
		return true
	default:
		return false
	}
}

func (g gate) unlock() { <-g }
