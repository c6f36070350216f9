// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestUntilWaitsAsLongAsThereIsNews(t *testing.T) {
	const limit = time.Minute
	for name, c := range map[string]struct {
		state func(time.Duration) error // what holds reports after that time
		waits time.Duration             // at least, until it gives up
	}{
		"without an error": {func(time.Duration) error { return nil }, limit},
		"nothing changes":  {func(time.Duration) error { return fmt.Errorf("85 claims are left") }, limit},
		"claims go one by one for a while": {func(now time.Duration) error {
			return fmt.Errorf("%d claims are left", max(5, 10-int(now/(30*time.Second))))
		}, 150*time.Second + limit},
		"the same claims come and go": {func(now time.Duration) error {
			return fmt.Errorf("%d claims are left", int(now/time.Second)%2)
		}, time.Second + limit},
		"ever other claims come and go": {func(now time.Duration) error {
			return fmt.Errorf("claim %d is left", now)
		}, 4 * limit},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				err := Until(t.Context(), limit, "nothing is left", func(context.Context) (bool, error) {
					return false, c.state(time.Since(began))
				})
				if err == nil {
					t.Fatal("it did not give up")
				}
				if waited := time.Since(began); waited < c.waits || waited > c.waits+time.Second {
					t.Errorf("it gave up after %s, want %s: %v", waited, c.waits, err)
				}
			})
		})
	}
}
