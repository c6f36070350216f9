// SPDX-License-Identifier: Apache-2.0

package aksmachine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/karve-dev/karve/internal/panics"
)

// reported is a Reporter that counts.
func countedPanics() (*panics.Reporter, *int) {
	n := 0
	return &panics.Reporter{Log: func(*panics.Panic) { n++ }}, &n
}

// Every order of a batch gets the panic as an error.
//
// Rule PANIC-1.
func TestBatchThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, n := countedPanics()
		b := NewBatcher(Batching{Idle: time.Second, MaxWait: 2 * time.Second, Size: 3}, r, func(context.Context, []int) []error { panic("boom") })
		answers := make(chan error, 2)
		for i := range 2 {
			go func() { answers <- b.Submit(t.Context(), "key", i) }()
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
