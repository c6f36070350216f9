// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/cluster"
)

// Preferences are the pods of upstream's preference benchmark, all alike. Each
// would like one zone, a zone without its like (of which there are three, so that
// few can have it), and a node without its like (which money can buy for all).
func Preferences(count int, settings cluster.Settings) *Scenario {
	request := newRandom().request()
	pods := make([]*corev1.Pod, count)
	for i := range pods {
		pods[i] = withPreferences(serial("pod", i), request)
	}
	return &Scenario{
		Name:     "preferences",
		Types:    linearTypes(400),
		Pools:    []*karpv1.NodePool{widePool()},
		Pending:  pods,
		Settings: settings,
	}
}

func withPreferences(name string, request corev1.ResourceList) *corev1.Pod {
	p := pending(name, request)
	p.Labels = map[string]string{"app": "nginx"}
	p.Spec.Affinity = &corev1.Affinity{
		NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: 1,
			Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"test-zone-1"},
			}}},
		}}},
		PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
			{Weight: 10, PodAffinityTerm: alike(p.Labels, corev1.LabelTopologyZone)},
			{Weight: 1, PodAffinityTerm: alike(p.Labels, corev1.LabelHostname)},
		}},
	}
	return p
}
