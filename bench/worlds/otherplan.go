// SPDX-License-Identifier: Apache-2.0

package worlds

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corehelpers "k8s.io/component-helpers/scheduling/corev1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/bench/judge"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/schedule"
)

// Refused judges a plan, from wherever it is, with each launch as its first offering. A volume of a
// zone on a node without a zone counts as refused, which the filters accept (VOLUME-6).
func (w *World) Refused(plan schedule.Plan) []judge.Rejection {
	j := newJudged(w, plan, func(_ int, l schedule.Launch) offering.Ref { return l.Offerings[0] })
	for _, p := range j.cluster.Placed {
		if j.noZone(p.Node) && j.zonedVolume(p.Pod) {
			j.fail([]cluster.PodRef{{Namespace: p.Pod.Namespace, Name: p.Pod.Name, UID: string(p.Pod.UID)}}, p.Node, "the volume's zone is known, and the node's is not")
		}
	}
	return append(j.errors, j.cluster.Rejections()...)
}

// NeedNodes are the pods that a plan must mention, by UID: those that wait, and those that must
// leave their nodes.
func (w *World) NeedNodes() map[types.UID]*corev1.Pod {
	out := map[types.UID]*corev1.Pod{}
	for _, p := range newJudged(w, schedule.Plan{}, nil).pods {
		out[p.UID] = p
	}
	return out
}

// Launched is the NodeClaim as it will be when it is launched, with the one offering that its
// requirements leave.
func (w *World) Launched(c *karpv1.NodeClaim) *karpv1.NodeClaim {
	if c.Status.ProviderID != "" {
		return c
	}
	j := newJudged(w, schedule.Plan{}, nil)
	n, _ := j.inFlight(c)
	out := c.DeepCopy()
	out.Labels = maps.Clone(n.Labels)
	delete(out.Labels, corev1.LabelHostname)
	out.Status.ProviderID = "cloud:///" + n.Name
	out.Status.Allocatable = n.Status.Allocatable
	i := slices.IndexFunc(j.sold.Types, func(t offering.InstanceType) bool { return t.Name == n.Labels[corev1.LabelInstanceTypeStable] })
	if i >= 0 {
		capacity, _ := judge.NewNode("", nil, nil, j.sold.Types[i].Capacity)
		out.Status.Capacity = capacity.Status.Capacity
	}
	return out
}

// Pending are the pods that kube-scheduler may leave pending when the nodes of a plan, from wherever it
// is, arrive as they do: those that are initialized are there, then come those in flight, then the
// launches in any order, each as its first offering. The scheduler asks nobody where pods go: one that
// the plan has for a later node goes to an earlier one that takes it. Two orders of launches and of pods
// are tried, and a pod is pending when it is in some.
func (w *World) Pending(plan schedule.Plan) map[types.UID]bool {
	j := newJudged(w, plan, func(_ int, l schedule.Launch) offering.Ref { return l.Offerings[0] })
	arrivals := j.arrivals()
	pods := slices.SortedFunc(maps.Values(j.pods), func(a, b *corev1.Pod) int { return cmp.Compare(a.UID, b.UID) })
	out := map[types.UID]bool{}
	for range 2 {
		for range 2 {
			maps.Copy(out, j.cluster.Unbound(byPriority(pods), arrivals))
			slices.Reverse(arrivals[2:])
		}
		slices.Reverse(pods)
	}
	return out
}

// arrivals are the names of the nodes that are initialized, of those in flight, and of each launch.
func (j *judged) arrivals() [][]string {
	out := make([][]string, 2)
	for _, n := range j.cluster.Nodes {
		switch i := slices.IndexFunc(j.w.Nodes, func(o *corev1.Node) bool { return o.Name == n.Name }); {
		case i >= 0 && (j.w.claimOf(j.w.Nodes[i]) == nil || j.w.Nodes[i].Labels[karpv1.NodeInitializedLabelKey] == "true"):
			out[0] = append(out[0], n.Name)
		case i >= 0, slices.ContainsFunc(j.w.NodeClaims, func(c *karpv1.NodeClaim) bool { return j.names[c.Name] == n.Name }):
			out[1] = append(out[1], n.Name)
		default:
			out = append(out, []string{n.Name})
		}
	}
	return out
}

// byPriority sorts the pods by priority, the highest first, and keeps the order of others.
func byPriority(pods []*corev1.Pod) []*corev1.Pod {
	return slices.SortedStableFunc(slices.Values(pods), func(a, b *corev1.Pod) int {
		return cmp.Compare(corehelpers.PodPriority(b), corehelpers.PodPriority(a))
	})
}
