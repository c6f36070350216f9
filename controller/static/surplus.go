// SPDX-License-Identifier: Apache-2.0

package static

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/kube"
)

// deletionOrder is the group a node is in when a static pool has too many.
type deletionOrder int

const (
	unlaunched deletionOrder = iota // nothing is lost
	unready                         // a replacement, so nothing runs there yet
	empty
	busy
	protected // a pod or the node asks to be left alone
)

// surplusNodes returns the first n nodes to delete: those not launched yet, then
// replacements that are not ready, then empty ones, then the rest by their
// eviction cost times the remaining part of their lifetime; nodes with do-not-disrupt are
// last. Ties break on the name.
func surplusNodes(nodes []kube.ManagedNode, n int, now time.Time) []kube.ManagedNode {
	type judged struct {
		kube.ManagedNode
		rank deletionOrder
		cost float64
	}
	all := make([]judged, 0, len(nodes))
	for _, m := range nodes {
		all = append(all, judged{m, deletionOrderOf(m, now), evictionCost(m, now) * remainingLifetime(m.Claim, now)})
	}
	slices.SortFunc(all, func(a, b judged) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.cost, b.cost), cmp.Compare(a.Claim.Name, b.Claim.Name))
	})
	out := make([]kube.ManagedNode, 0, n)
	for _, j := range all[:min(n, len(all))] {
		out = append(out, j.ManagedNode)
	}
	return out
}

func deletionOrderOf(m kube.ManagedNode, now time.Time) deletionOrder {
	asks := func(p *corev1.Pod) bool {
		return p.DeletionTimestamp == nil && !kube.Terminal(p) && kube.DoNotDisrupt(p, now)
	}
	switch {
	case !kube.ConditionTrue(m.Claim, karpv1.ConditionTypeLaunched):
		return unlaunched
	case m.Claim.Annotations[kube.ReplacesAnnotation] != "" && !kube.ConditionTrue(m.Claim, karpv1.ConditionTypeInitialized):
		return unready
	case m.Node != nil && m.Node.Annotations[karpv1.DoNotDisruptAnnotationKey] == "true", slices.ContainsFunc(m.Pods, asks):
		return protected
	case slices.ContainsFunc(m.Pods, func(p *corev1.Pod) bool { return kube.ReschedulableNow(p, now) }):
		return busy
	}
	return empty
}

// evictionCost adds up the cost of evicting each pod that needs another node.
func evictionCost(m kube.ManagedNode, now time.Time) float64 {
	sum := 0.0
	for _, p := range m.Pods {
		if kube.ReschedulableNow(p, now) {
			sum += kube.EvictionCost(p)
		}
	}
	return sum
}

// remainingLifetime is the share of its lifetime that a claim has left, from 0 to 1.
func remainingLifetime(c *karpv1.NodeClaim, now time.Time) float64 {
	life := c.Spec.ExpireAfter.Duration
	if life == nil || *life <= 0 {
		return 1
	}
	left := *life - now.Sub(c.CreationTimestamp.Time)
	return min(max(float64(left)/float64(*life), 0), 1)
}
