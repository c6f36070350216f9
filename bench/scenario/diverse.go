// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Diverse is the mix of upstream's own benchmark: a fifth each of plain pods,
// pods spread over zones, pods spread over nodes, pods that share a zone, and
// pods that share no node; nothing is running yet. What does not divide by five
// is plain.
func Diverse(count int) *Scenario {
	m := mix{random: newRandom()}
	fifth := count / 5
	m.add(fifth, m.plain)
	m.add(fifth, func() *corev1.Pod { return m.spread(corev1.LabelTopologyZone) })
	m.add(fifth, func() *corev1.Pod { return m.spread(corev1.LabelHostname) })
	m.add(fifth, m.together)
	m.add(fifth, m.apart)
	m.add(count-5*fifth, m.plain)
	return &Scenario{
		Name:    "diverse",
		Types:   linearTypes(400),
		Pools:   []*karpv1.NodePool{widePool()},
		Pending: m.pods,
	}
}

// mix draws pods one after the other.
type mix struct {
	random
	pods []*corev1.Pod
}

func (m *mix) add(n int, draw func() *corev1.Pod) {
	for range n {
		m.pods = append(m.pods, draw())
	}
}

func (m *mix) next() *corev1.Pod { return pending(serial("pod", len(m.pods)), m.request()) }

func (m *mix) plain() *corev1.Pod {
	p := m.next()
	p.Labels = m.label("my-label")
	return p
}

// spread evens out the pods of some label, which need not be the pod's own.
func (m *mix) spread(key string) *corev1.Pod {
	p := m.plain()
	p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule,
		LabelSelector: &metav1.LabelSelector{MatchLabels: m.label("my-label")},
	}}
	return p
}

// together asks for a zone with pods of the same label, its own included.
func (m *mix) together() *corev1.Pod {
	p := m.next()
	p.Labels = m.label("my-affinity")
	p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{alike(p.Labels, corev1.LabelTopologyZone)},
	}}
	return p
}

// apart asks for a node without pods of the same label.
func (m *mix) apart() *corev1.Pod {
	p := m.next()
	p.Labels = map[string]string{"app": "nginx"}
	p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{alike(p.Labels, corev1.LabelHostname)},
	}}
	return p
}

func alike(labels map[string]string, key string) corev1.PodAffinityTerm {
	return corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: labels}}
}
