package azure

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/karve-dev/karve/internal/panics"
)

// reported is a Reporter that counts.
func reported() (*panics.Reporter, *int) {
	n := 0
	return &panics.Reporter{Log: func(*panics.Panic) { n++ }}, &n
}

// An answer that makes karve panic is an error like others: the waiting callers get it, and the
// request is repeated.
//
// Rule PANIC-1.
func TestAnswerThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, n := reported()
		asked := 0
		s := &source[int]{name: "numbers", now: time.Now, patience: time.Second, panics: r, same: func(a, b int) bool { return a == b },
			load: func(context.Context) (int, error) {
				if asked++; asked == 1 {
					panic("boom")
				}
				return 7, nil
			}}
		err := s.refresh(t.Context())
		if err == nil || err.Error() != "reading numbers: panic in azure: boom" || s.read().problem == "" {
			t.Errorf("error %v, problem %q", err, s.read().problem)
		}
		if err := s.refresh(t.Context()); err != nil || s.read().value != 7 || *n != 1 {
			t.Errorf("error %v, answer %d, told %d times", err, s.read().value, *n)
		}
	})
}

// A shared read may panic, too.
//
// Rule PANIC-1.
func TestReadingThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, n := reported()
		group := readings{panics: r}
		var p *panics.Panic
		_, err := together(t.Context(), &group, "subnet", func(context.Context) (string, error) { panic("boom") })
		if !errors.As(err, &p) || *n != 1 {
			t.Errorf("error %v, told %d times", err, *n)
		}
	})
}

// Every order of a batch gets the panic as an error.
//
// Rule PANIC-1.
func TestBatchThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, n := reported()
		b := newBatcher(Batching{Idle: time.Second, Most: 2 * time.Second, Size: 3}, r, func(context.Context, []int) []error { panic("boom") })
		answers := make(chan error, 2)
		for i := range 2 {
			go func() { answers <- b.ask(t.Context(), "key", i) }()
		}
		for range 2 {
			var p *panics.Panic
			if err := <-answers; !errors.As(err, &p) {
				t.Errorf("error %v", err)
			}
		}
		if *n != 1 {
			t.Errorf("told %d times", *n)
		}
	})
}
