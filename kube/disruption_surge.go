package kube

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// MaySurge reports whether the eviction API refuses to let a pod go that is perhaps the
// only one of a Deployment: one may leave by a rolling restart, in which no budget has a
// say.
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

// surge replaces the set of pods that leave by rolling restarts, and returns those about
// which that is news.
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

// Surging says which pods leave a node that is drained by a rolling restart and not by
// an eviction, all of them: no budget holds those, and room is looked for in time. It
// reports whether that is news.
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
