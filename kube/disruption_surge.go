package kube

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// MaySurge reports whether the eviction API refuses to evict a pod that may be the only one of a
// Deployment. Such a pod can leave by a rolling restart, which disruption budgets do not
// restrict.
func (b *PodBudgets) MaySurge(p *corev1.Pod) bool {
	owner := metav1.GetControllerOf(p)
	if owner == nil || owner.Kind != "ReplicaSet" || !podReady(p) {
		return false
	}
	r := b.judge(p)
	return len(r.Budgets) > 1 || len(r.Budgets) == 1 && r.Status.ExpectedPods == 1
}

// surges reports whether the pod leaves by a rolling restart.
func (b *PodBudgets) surges(p *corev1.Pod) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.surging[p.UID]
}

// surge replaces the set of pods that leave by rolling restarts, and returns the pods that were
// added or removed.
func (b *PodBudgets) surge(pods map[types.UID]bool) (news []types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for uid := range pods {
		if !b.surging[uid] {
			news = append(news, uid)
		}
	}
	for uid := range b.surging {
		if !pods[uid] {
			news = append(news, uid)
		}
	}
	b.surging = maps.Clone(pods)
	return news
}

// Surging sets which pods leave their drained node by a rolling restart and not by an eviction;
// pods is the complete set. No budget holds these pods, and capacity for them is sought in time.
// It reports whether the set changed.
func (m *Mirror) Surging(pods map[types.UID]bool) bool {
	others := m.podBudgets.surge(pods)
	if len(others) == 0 {
		return false
	}
	m.change(func() news {
		var woke []string
		for _, uid := range others {
			woke = append(woke, m.tellPod(string(uid))...)
		}
		m.moved()
		return news{woke: woke}
	})
	return true
}
