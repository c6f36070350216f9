// SPDX-License-Identifier: Apache-2.0

package termination

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/kube"
)

// largestFirst orders pods by the share of the node that they request, CPU and memory together.
// The scheduler places replacements in the order of their creation: if the small ones came first,
// they would use up the capacity that the large ones need, and nodes would be launched.
func largestFirst(pods []*corev1.Pod, node *corev1.Node) []*corev1.Pod {
	has, size := kube.Amounts(node.Status.Allocatable), map[*corev1.Pod]float64{}
	for _, p := range pods {
		requests := kube.Requests(p)
		size[p] = share(requests, has, corev1.ResourceCPU) + share(requests, has, corev1.ResourceMemory)
	}
	out := slices.Clone(pods)
	slices.SortStableFunc(out, func(a, b *corev1.Pod) int { return cmp.Compare(size[b], size[a]) })
	return out
}

// share returns the part of a resource that is requested; 0 if the node has none of it.
func share(requests, has quantity.Amounts, of corev1.ResourceName) float64 {
	if has[string(of)] <= 0 {
		return 0
	}
	return float64(requests[string(of)]) / float64(has[string(of)])
}
