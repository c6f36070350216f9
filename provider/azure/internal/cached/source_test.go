// SPDX-License-Identifier: Apache-2.0

package cached

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/karve-dev/karve/internal/panics"
)

// A read that many callers wait for happens once, and completes when the first caller gives up.
func TestWhoGivesUpTakesNobodysAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var group Reads
		reads, answered := 0, make(chan struct{})
		read := func(ctx context.Context) (string, error) {
			reads++
			<-answered
			return "10.0.0.0/16", ctx.Err()
		}
		first, giveUp := context.WithCancel(t.Context())
		var early, late error
		var got string
		go func() { _, early = Once(first, &group, "subnet", nil, read) }()
		synctest.Wait()
		go func() { got, late = Once(t.Context(), &group, "subnet", nil, read) }()
		synctest.Wait()
		giveUp()
		synctest.Wait()
		if !errors.Is(early, context.Canceled) {
			t.Errorf("who gave up was told %v", early)
		}
		close(answered)
		synctest.Wait()
		if got != "10.0.0.0/16" || late != nil || reads != 1 {
			t.Errorf("who stayed got %q, %v after %d reads", got, late, reads)
		}
	})
}

// testSource is a source whose answers a test decides.
func testSource(load func() (int, error)) (*Source[int], *time.Time) {
	now := time.Unix(0, 0)
	return &Source[int]{
		Name: "numbers", Load: func(context.Context) (int, error) { return load() },
		Same: func(req, b int) bool { return req == b },
		Validate: func(last, next int) error {
			if next < last/2 {
				return errors.New("shrank")
			}
			return nil
		},
		Env: Env{Now: func() time.Time { return now }},
	}, &now
}

// Rule CATALOG-3.
func TestSourceKeepsTheLastGoodAnswer(t *testing.T) {
	answer, failure, startedAt := 0, errors.New("down"), 0
	s, now := testSource(func() (int, error) { startedAt++; return answer, failure })
	ctx := t.Context()
	for range 5 {
		if err := s.Ensure(ctx); err == nil {
			t.Fatal("there is an answer before there is one")
		}
	}
	if startedAt != 1 {
		t.Errorf("asked %d times at once; one is enough while it fails", startedAt)
	}
	*now = now.Add(firstRetry)
	answer, failure = 100, nil
	if err := s.Ensure(ctx); err != nil || s.State().Value != 100 || s.State().Problem != "" {
		t.Fatalf("%v, %+v", err, s.State())
	}
	version := s.State().Version
	answer = 3
	if err := s.Refresh(ctx); err == nil || s.State().Value != 100 || !strings.Contains(s.State().Problem, "shrank") {
		t.Errorf("an answer that shrank to nothing was believed: %v, %+v", err, s.State())
	}
	failure = errors.New("down again")
	if err := s.Refresh(ctx); err == nil || s.State().Value != 100 || !strings.Contains(s.State().Problem, "1970-01-01T00:00:03Z") {
		t.Errorf("%v, %+v", err, s.State())
	}
	answer, failure = 100, nil
	if err := s.Refresh(ctx); err != nil || s.State().Version != version || s.State().Problem != "" {
		t.Errorf("the same answer again is another version: %v, %+v", err, s.State())
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	failure = context.Canceled
	if err := s.Refresh(cancelled); err == nil || s.State().Problem != "" {
		t.Errorf("a caller that gave up became a problem of the cloud: %v, %+v", err, s.State())
	}
}

// reported is a Reporter that counts.
func reported() (*panics.Reporter, *int) {
	n := 0
	return &panics.Reporter{Log: func(*panics.Panic) { n++ }}, &n
}

// A request that panics counts as one that fails: the waiting callers get an error, and the
// request is repeated.
//
// Rule PANIC-1.
func TestAnswerThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, n := reported()
		startedAt := 0
		s := &Source[int]{Name: "numbers", Env: Env{Now: time.Now, Patience: time.Second, Panics: r}, Same: func(req, b int) bool { return req == b },
			Load: func(context.Context) (int, error) {
				if startedAt++; startedAt == 1 {
					panic("boom")
				}
				return 7, nil
			}}
		err := s.Refresh(t.Context())
		if err == nil || err.Error() != "reading numbers: panic in azure: boom" || s.State().Problem == "" {
			t.Errorf("error %v, problem %q", err, s.State().Problem)
		}
		if err := s.Refresh(t.Context()); err != nil || s.State().Value != 7 || *n != 1 {
			t.Errorf("error %v, answer %d, told %d times", err, s.State().Value, *n)
		}
	})
}

// A shared read may panic, too.
//
// Rule PANIC-1.
func TestReadingThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, n := reported()
		var group Reads
		var p *panics.Panic
		_, err := Once(t.Context(), &group, "subnet", r, func(context.Context) (string, error) { panic("boom") })
		if !errors.As(err, &p) || *n != 1 {
			t.Errorf("error %v, told %d times", err, *n)
		}
	})
}
