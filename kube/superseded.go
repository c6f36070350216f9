package kube

import corev1 "k8s.io/api/core/v1"

// Supersede records that another pod takes the place of one that still runs: a rolling restart is
// under way. The old pod then needs no new node, and capacity promised to it is for its
// replacement. It holds until the pod is gone.
func (m *Mirror) Supersede(p *corev1.Pod) {
	m.change(func() news { m.supersede(string(p.UID)); return news{} })
}

func (m *Mirror) supersede(uid string) {
	if m.pods[uid] == nil || m.superseded[uid] {
		return
	}
	m.superseded[uid] = true
	m.breakPromise(uid)
	m.tellPod(uid)
}
