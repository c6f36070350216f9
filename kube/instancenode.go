// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// IsNodeOf reports whether the Node is that of the claim's instance: it has its provider ID, which any
// kubelet can write on its own Node, and the name that the instance registers as, which no other kubelet
// may use. Launching records the name; without one, which claims of Karpenter lack until their Nodes
// register, the provider ID alone decides.
func IsNodeOf(n *corev1.Node, c *karpv1.NodeClaim) bool {
	return n.Spec.ProviderID != "" && n.Spec.ProviderID == c.Status.ProviderID &&
		(c.Status.NodeName == "" || c.Status.NodeName == n.Name)
}

// NodeOfInstance returns, of the Nodes that have the provider ID of one instance, the one as which
// the instance runs; nil when there are none. Any other is left over from an earlier name. It is
// the Node as which the kubelet reports. If it reports as several, or as none, it is the one of that
// name, which the NodeClaim has, or else the youngest.
func NodeOfInstance(nodes []corev1.Node, claimed string) *corev1.Node {
	if len(nodes) == 0 {
		return nil
	}
	rank := func(n *corev1.Node) int {
		r := 0
		if Ready(n) {
			r += 2
		}
		if n.Name == claimed {
			r++
		}
		return r
	}
	best := slices.MinFunc(nodes, func(a, b corev1.Node) int {
		return cmp.Or(cmp.Compare(rank(&b), rank(&a)), b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return &best
}
