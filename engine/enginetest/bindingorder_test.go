// SPDX-License-Identifier: Apache-2.0

package enginetest_test

import (
	"slices"
	"testing"

	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/schedule"
)

// TestBindingOrderOfFirstOfferings: a launch that has become a node is as its first offering. What the
// plan says about the others, and minValues, make no difference to the order.
func TestBindingOrderOfFirstOfferings(t *testing.T) {
	narrowed := 0
	for seed := range uint64(300) {
		script := enginetest.RandomFull(seed, 1+int(seed%32))
		plan := schedule.Solve(script.Snapshot())
		want := enginetest.BindingOrder(script, plan)
		for i := range plan.Launches {
			l := &plan.Launches[i]
			if len(l.Offerings) > 1 {
				narrowed++
			}
			l.Offerings = l.Offerings[:1]
		}
		if got := enginetest.BindingOrder(script, plan); !slices.Equal(got, want) {
			t.Errorf("seed %d: the order is %v, with all offerings %v", seed, got, want)
		}
	}
	if narrowed < 100 {
		t.Errorf("only %d launches had several offerings", narrowed)
	}
}
