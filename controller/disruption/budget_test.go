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

// due brings up n nodes with a small pod each, of which all but the first have drifted and
// the budget lets one go at a time, and the search that really decides.
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

// down counts the nodes that go, but for those whose machines are going already: budgets
// do not count them either.
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

// The moment in which a node is asked to go is not the moment for the next.
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
