// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/karve-dev/karve/local"
)

// An image release changes every node of a cluster of 600 pods: within the budget,
// each replaced before it goes, and all pods there in the end.
//
// Rule BUDGET-2.
func TestImageReleaseChangesEveryNode(t *testing.T) {
	env := plain.take(t)
	settle(t, env)
	var all []mixedDeployment
	for i := range 10 {
		s := mixedDeployment{name: fmt.Sprintf("image-%d", i), milliCPU: 200 + 100*(i%3), mib: 1024, before: 60, then: 60, capacity: "on-demand"}
		if i%2 == 0 {
			s.budget = "maxUnavailable: 10%"
		}
		all = append(all, s)
		apply(t, env, s.manifest("image"))
	}
	waitPending(t, env, 600)
	apply(t, env, consolidatedPool("image", `- {key: karpenter.azure.com/sku-cpu, operator: In, values: ["8"]}`)) // some twenty nodes
	waitAll(t, env, all, func(s mixedDeployment) int { return s.before })
	waitQuiet(t, env, func() bool { return false }) // so that nothing but the release moves nodes
	old := claimNames(t, env)

	h := record(t, env, nodesKind, claimsKind)
	began := time.Now()
	if err := env.Emulator().PublishImage("*", fmt.Sprintf("209901.01.%d", began.Unix())); err != nil {
		t.Fatal(err)
	}
	err := local.Until(t.Context(), 2*waitLimit, "every node of before is gone", func(ctx context.Context) (bool, error) {
		if err := env.Err(); err != nil {
			return false, err
		}
		left := 0
		for name := range claimNames(t, env) {
			if old[name] {
				left++
			}
		}
		if left > 0 {
			return false, fmt.Errorf("%d of %d are left", left, len(old))
		}
		return true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d nodes were changed in %.0f s", len(old), time.Since(began).Seconds())
	waitAll(t, env, all, func(s mixedDeployment) int { return s.then })
	checkBudget(t, h, "image", 10)
	checkCapacity(t, h, "image", cores(all))
}
