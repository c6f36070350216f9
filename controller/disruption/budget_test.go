// SPDX-License-Identifier: Apache-2.0

package disruption_test

import (
	"testing"
	"testing/synctest"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/controller/disruption"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/kube"
)

// due creates n nodes with a small pod each, of which all but the first have drifted and
// the budget allows the disruption of one at a time, and uses the real search.
func due(t *testing.T, n int) *controllertest.Env {
	e, _ := scripted(t, n, disrupt.Drifted)
	pool := controllertest.Get(e, &karpv1.NodePool{}, "web")
	pool.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "1"}}
	pool.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("Never")
	rewrite(e, pool)
	e.Disrupt = func(c *disruption.Options) { c.Search, c.Recheck = disrupt.Search, disrupt.Recheck }
	e.Restart()
	e.Pace = time.Second
	for _, c := range e.Claims()[1:] {
		c.StatusConditions().SetTrueWithReason(karpv1.ConditionTypeDrifted, "NodePoolDrifted", "")
		if err := e.API.Status().Update(t.Context(), &c); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// down counts the nodes that are disrupted, except those whose instances are being deleted:
// budgets do not count them either.
func down(e *controllertest.Env) int {
	n := 0
	for _, c := range e.Claims() {
		_, marked, _ := kube.MoveOf(&c)
		if (marked || c.DeletionTimestamp != nil) && !kube.ConditionTrue(&c, karpv1.ConditionTypeInstanceTerminating) {
			n++
		}
	}
	return n
}

// A node that was just deleted counts against the budget at once.
//
// Rule BUDGET-2.
func TestBudgetCountsNodesJustDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := due(t, 3)
		went := 0
		for range 60 {
			live(e, 3)
			e.Step()
			if got := down(e); got > 1 {
				t.Fatalf("%d nodes are down, the budget allows 1", got)
			} else if got == 1 {
				went++
			}
		}
		if went == 0 {
			t.Error("no node was disrupted")
		}
	})
}
