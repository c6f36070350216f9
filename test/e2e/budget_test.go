// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// checkBudget looks at every instant of a history of nodes and claims: of a pool's
// nodes that were ready once and whose VMs are not being deleted, at most percent
// of a hundred, rounded up, are kept from pods, leave or do not work. It counts for
// itself, by what the objects say.
func checkBudget(t *testing.T, h *history, pool string, percent int) {
	t.Helper()
	worst, broken := 0, 0
	h.replay(t, func(now instant) {
		count := countNodes(t, now, pool)
		worst = max(worst, count.down)
		if allowed := (percent*count.nodes + 99) / 100; count.down > allowed {
			if broken++; broken <= 3 {
				t.Errorf("at revision %d (%s %s) %d of %d nodes were down, allowed were %d", now.of.revision, now.of.id.resource, now.of.id.name, count.down, count.nodes, allowed)
			}
		}
	})
	t.Logf("at most %d nodes of pool %s were down at once; %d instants were beyond the budget", worst, pool, broken)
}

type nodeCount struct{ nodes, down int }

func countNodes(t *testing.T, now instant, pool string) nodeCount {
	going := map[string]bool{} // nodes whose VMs are being deleted
	now.each(claimsKind, func(o *object) {
		if claimSays(o, "InstanceTerminating") {
			going[nodeOfClaim(o)] = true
		}
	})
	var count nodeCount
	now.each(nodesKind, func(o *object) {
		labels := o.GetLabels()
		if labels["karpenter.sh/nodepool"] != pool || labels["karpenter.sh/initialized"] != "true" || going[o.GetName()] {
			return
		}
		count.nodes++
		if down(as[corev1.Node](t, o)) {
			count.down++
		}
	})
	return count
}

func down(n *corev1.Node) bool {
	ready := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	return n.DeletionTimestamp != nil || !ready || taintedByUs(n)
}

// taintedByUs reports whether karve keeps pods away from the node.
func taintedByUs(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(x corev1.Taint) bool { return x.Key == "karpenter.sh/disrupted" })
}

func claimSays(o *object, condition string) bool {
	field, _, _ := unstructured.NestedFieldNoCopy(o.Object, "status", "conditions")
	conditions, _ := field.([]any)
	return slices.ContainsFunc(conditions, func(c any) bool {
		fields, ok := c.(map[string]any)
		return ok && fields["type"] == condition && fields["status"] == "True"
	})
}

func nodeOfClaim(o *object) string {
	name, _, _ := unstructured.NestedString(o.Object, "status", "nodeName")
	return name
}

// checkCapacity looks at every instant of a history of nodes and pods: what nodes
// that take pods or still run theirs have in cores never falls below what the
// pods in the pool ask for, so each node was replaced before it went.
func checkCapacity(t *testing.T, h *history, pool string, milliCPU int64) {
	t.Helper()
	least := int64(-1)
	h.replay(t, func(now instant) {
		sum := int64(0)
		now.each(nodesKind, func(o *object) {
			if o.GetLabels()["karpenter.sh/nodepool"] == pool && o.GetLabels()["karpenter.sh/initialized"] == "true" && o.GetDeletionTimestamp() == nil {
				sum += as[corev1.Node](t, o).Status.Allocatable.Cpu().MilliValue()
			}
		})
		if least >= 0 || sum >= milliCPU { // the list that history begins with comes object by object
			if least < 0 || sum < least {
				least = sum
			}
		}
	})
	if least < milliCPU {
		t.Errorf("at worst the nodes had %d milli-cores for pods that ask for %d: a node went before its replacement came", least, milliCPU)
	}
	t.Logf("at worst the nodes had %d milli-cores for pods that ask for %d", least, milliCPU)
}
