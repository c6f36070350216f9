// SPDX-License-Identifier: Apache-2.0

package worlds

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
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
