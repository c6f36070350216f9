// SPDX-License-Identifier: Apache-2.0

package termination

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/kube"
)

// largestFirst orders pods by the share of the node that they ask for, CPU and memory
// together. The scheduler finds a place for what takes theirs as it comes: were the
// small ones first, they would use up what the large ones need, and machines be bought.
func largestFirst(pods []*corev1.Pod, node *corev1.Node) []*corev1.Pod {
	has, size := kube.Amounts(node.Status.Allocatable), map[*corev1.Pod]float64{}
	for _, p := range pods {
		asks := kube.Requests(p)
		size[p] = share(asks, has, corev1.ResourceCPU) + share(asks, has, corev1.ResourceMemory)
	}
	out := slices.Clone(pods)
	slices.SortStableFunc(out, func(a, b *corev1.Pod) int { return cmp.Compare(size[b], size[a]) })
	return out
}

// share is the part of a resource that is asked for; of none it is nothing.
func share(asks, has quantity.Amounts, of corev1.ResourceName) float64 {
	if has[string(of)] <= 0 {
		return 0
	}
	return float64(asks[string(of)]) / float64(has[string(of)])
}
