// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// disrupted pools: as many nodes as asked for, all initialized.
type budgeted struct {
	h      *history
	pool   *karpv1.NodePool
	claims []*karpv1.NodeClaim
	nodes  []*corev1.Node
}

func withNodes(h *history, n int, budgets ...karpv1.Budget) *budgeted {
	b := &budgeted{h: h, pool: poolOf("a", "")}
	b.pool.Spec.Disruption.Budgets = budgets
	h.put(b.pool)
	for i := range n {
		c := initialized(claimOf(fmt.Sprintf("a%d", i), "a", ""), "cpu=4")
		b.claims, b.nodes = append(b.claims, c), append(b.nodes, nodeOf(c))
		h.put(c, b.nodes[i])
	}
	h.wait(time.Minute)
	return b
}

// disrupt begins the disruption of nodes, in karve's order.
func (b *budgeted) disrupt(cause string, nodes ...int) {
	for _, i := range nodes {
		b.h.put(taint(b.nodes[i]), said(b.claims[i], karpv1.ConditionTypeDisruptionReason, metav1.ConditionTrue, cause))
		b.h.wait(0)
	}
}

// S9: no more nodes are down than budgets allow.
func TestBudgets(t *testing.T) {
	hour := &metav1.Duration{Duration: time.Hour}
	text := func(s string) *string { return &s }
	only := func(reasons ...karpv1.DisruptionReason) []karpv1.DisruptionReason { return reasons }
	histories := map[string]func(h *history){
		"as many as allowed":    func(h *history) { withNodes(h, 5, karpv1.Budget{Nodes: "2"}).disrupt("Drifted", 0, 1) },
		"one more [S9]":         func(h *history) { withNodes(h, 5, karpv1.Budget{Nodes: "2"}).disrupt("Drifted", 0, 1, 2) },
		"a share rounds up":     func(h *history) { withNodes(h, 11, karpv1.Budget{Nodes: "10%"}).disrupt("Empty", 0, 1) },
		"beyond the share [S9]": func(h *history) { withNodes(h, 10, karpv1.Budget{Nodes: "10%"}).disrupt("Empty", 0, 1) },
		"without budgets":       func(h *history) { withNodes(h, 3).disrupt("Empty", 0, 1, 2) },
		"the strictest [S9]": func(h *history) {
			withNodes(h, 5, karpv1.Budget{Nodes: "3"}, karpv1.Budget{Nodes: "1"}).disrupt("Empty", 0, 1)
		},
		"for another reason": func(h *history) {
			withNodes(h, 5, karpv1.Budget{Nodes: "0", Reasons: only("Drifted")}).disrupt("Empty", 0, 1)
		},
		"for this reason [S9]": func(h *history) {
			withNodes(h, 5, karpv1.Budget{Nodes: "0", Reasons: only("Drifted")}).disrupt("Drifted", 0)
		},
		"soft expiry counts as drift [S9]": func(h *history) {
			withNodes(h, 5, karpv1.Budget{Nodes: "0", Reasons: only("Drifted")}).disrupt("Expired", 0)
		},
		"a reason that is not said may be any": func(h *history) {
			b := withNodes(h, 5, karpv1.Budget{Nodes: "0", Reasons: only("Drifted")})
			h.put(taint(b.nodes[0]))
		},
		"no reason allows it [S9]": func(h *history) {
			b := withNodes(h, 5, karpv1.Budget{Nodes: "0"})
			h.put(taint(b.nodes[0]))
		},
		"within its window [S9]": func(h *history) { // begin is at 12:00
			withNodes(h, 5, karpv1.Budget{Nodes: "0", Schedule: text("30 11 * * mon"), Duration: hour}).disrupt("Empty", 0)
		},
		"on another weekday": func(h *history) {
			withNodes(h, 5, karpv1.Budget{Nodes: "0", Schedule: text("30 11 * * tue"), Duration: hour}).disrupt("Empty", 0)
		},
		"after its window": func(h *history) {
			withNodes(h, 5, karpv1.Budget{Nodes: "0", Schedule: text("30 10 * * *"), Duration: hour}).disrupt("Empty", 0)
		},
		"a window that began yesterday [S9]": func(h *history) {
			withNodes(h, 5, karpv1.Budget{Nodes: "0", Schedule: text("30 20 * * 0"), Duration: &metav1.Duration{Duration: 16 * time.Hour}}).disrupt("Empty", 0)
		},
		"a schedule that cannot be read allows nothing [S9]": func(h *history) {
			withNodes(h, 5, karpv1.Budget{Nodes: "5", Schedule: text("61 * * * *"), Duration: hour}).disrupt("Empty", 0)
		},
		"one that is not ready uses it up [S9]": func(h *history) {
			b := withNodes(h, 5, karpv1.Budget{Nodes: "1"})
			h.put(readiness(b.nodes[4], corev1.ConditionUnknown))
			h.wait(time.Minute)
			b.disrupt("Empty", 0)
		},
		"one that a user deletes uses it up [S9]": func(h *history) {
			b := withNodes(h, 5, karpv1.Budget{Nodes: "1"})
			h.terminate(b.nodes[4])
			h.wait(time.Minute)
			b.disrupt("Empty", 0)
		},
		"one whose VM is terminating does not": func(h *history) {
			b := withNodes(h, 5, karpv1.Budget{Nodes: "1"})
			h.terminate(b.claims[4], b.nodes[4])
			h.put(taint(b.nodes[4]), said(b.claims[4], karpv1.ConditionTypeInstanceTerminating, metav1.ConditionTrue, "Terminating"))
			h.wait(time.Minute)
			b.disrupt("Empty", 0)
		},
		"one that was never initialized does not": func(h *history) {
			b := withNodes(h, 5, karpv1.Budget{Nodes: "1"})
			n := readiness(nodeOf(claimOf("new", "a", "")), corev1.ConditionFalse)
			delete(n.Labels, karpv1.NodeInitializedLabelKey)
			h.put(n)
			h.wait(time.Minute)
			b.disrupt("Empty", 0)
		},
		"one after the other": func(h *history) {
			b := withNodes(h, 3, karpv1.Budget{Nodes: "1"})
			b.disrupt("Empty", 0)
			h.terminate(b.claims[0], b.nodes[0])
			h.remove(b.nodes[0], b.claims[0])
			b.disrupt("Empty", 1)
		},
		"one is taken back": func(h *history) {
			b := withNodes(h, 3, karpv1.Budget{Nodes: "1"})
			b.disrupt("Empty", 0)
			h.put(untaint(b.nodes[0]))
			b.disrupt("Empty", 1)
		},
		"a drain that a user began": func(h *history) {
			b := withNodes(h, 3, karpv1.Budget{Nodes: "0"})
			for _, n := range b.nodes {
				h.terminate(n)
				h.put(taint(n))
			}
		},
		"taints that were there before": func(h *history) {
			h.put(poolOf("a", ""))
			b := withNodes(h, 0, karpv1.Budget{Nodes: "0"})
			for _, name := range []string{"b1", "b2"} {
				c := initialized(claimOf(name, "a", ""), "cpu=4")
				h.put(c, taint(nodeOf(c)))
			}
			b.disrupt("Empty")
		},
	}
	run(t, "S9", histories)
	t.Run("lagging", func(t *testing.T) { runWith(t, lagging, "S9", histories) })
}

func TestBudgetsLagging(t *testing.T) {
	runWith(t, lagging, "S9", map[string]func(h *history){
		"a node fails a moment before": func(h *history) {
			b := withNodes(h, 5, karpv1.Budget{Nodes: "1"})
			h.put(readiness(b.nodes[4], corev1.ConditionFalse))
			h.wait(5 * time.Second)
			b.disrupt("Empty", 0)
		},
		"the budget is cut a moment before": func(h *history) {
			b := withNodes(h, 5, karpv1.Budget{Nodes: "1"})
			b.pool.Spec.Disruption.Budgets[0].Nodes = "0"
			h.put(b.pool)
			h.wait(5 * time.Second)
			b.disrupt("Empty", 0)
		},
		"the budget was cut before [S9]": func(h *history) {
			b := withNodes(h, 5, karpv1.Budget{Nodes: "1"})
			b.pool.Spec.Disruption.Budgets[0].Nodes = "0"
			h.put(b.pool)
			h.wait(time.Minute)
			b.disrupt("Empty", 0)
		},
		"its VM was terminating, which is seen later": func(h *history) {
			b := withNodes(h, 5, karpv1.Budget{Nodes: "1"})
			h.terminate(b.claims[4], b.nodes[4])
			h.put(taint(b.nodes[4]))
			h.wait(time.Minute)
			b.disrupt("Empty", 0)
			h.put(said(b.claims[4], karpv1.ConditionTypeInstanceTerminating, metav1.ConditionTrue, "Terminating"))
		},
	})
}
