package kube

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
)

// PodBudgets returns the PodDisruptionBudgets of the cluster, kept current.
func (m *Mirror) PodBudgets() *PodBudgets { return m.podBudgets }

// SetPDB adds or replaces a PodDisruptionBudget.
func (m *Mirror) SetPDB(p *policyv1.PodDisruptionBudget) {
	m.change(func() news { return m.setPDB(p) })
}

func (m *Mirror) setPDB(p *policyv1.PodDisruptionBudget) news {
	return anything(m.judgeLater(p.Namespace, m.podBudgets.Set(p)))
}

// RemovePDB forgets a PodDisruptionBudget.
func (m *Mirror) RemovePDB(p *policyv1.PodDisruptionBudget) {
	m.change(func() news { return m.removePDB(p) })
}

func (m *Mirror) removePDB(p *policyv1.PodDisruptionBudget) news {
	return anything(m.judgeLater(p.Namespace, m.podBudgets.Remove(p)))
}

// judgeLater marks the pods that a budget change concerns; judge looks at them before the
// Snapshot is next read. At startup, and during large rollouts, budgets change by the hundred. It
// reports whether pods on a leaving node may need capacity because of the change.
func (m *Mirror) judgeLater(namespace string, news budgetNews) (wake bool) {
	if news.changed {
		m.moved()
	}
	if len(m.podsIn[namespace]) == 0 {
		return false
	}
	for _, l := range news.about {
		set(m.unjudged, namespace, l)
	}
	return len(news.about) > 0 && m.anyLeaving()
}

func (m *Mirror) anyLeaving() bool {
	for _, w := range m.worldNodes {
		if w.Leaving {
			return true
		}
	}
	return false
}

// judge looks again at the pods whose budgets changed, and returns those that have come to need
// capacity.
func (m *Mirror) judge() (woke []string) {
	for namespace, about := range m.unjudged {
		for uid := range m.podsIn[namespace] {
			p := m.pods[uid]
			if bears(p, about) && m.held[uid] != m.isHeld(p) {
				woke = append(woke, m.tellPod(uid)...)
			}
		}
	}
	clear(m.unjudged)
	return woke
}

func bears(p *corev1.Pod, any map[label]bool) bool {
	for l := range any {
		if l.of(p) {
			return true
		}
	}
	return false
}

// isHeld reports whether a bound pod cannot be evicted from its node however long karve waits. No
// capacity is sought for it elsewhere: that capacity would stay unused.
func (m *Mirror) isHeld(p *corev1.Pod) bool {
	return p.Spec.NodeName != "" && Evictable(p) && m.podBudgets.Refused(p).ForGood
}

// noteHeld records whether the Snapshot shows the pod as held.
func (m *Mirror) noteHeld(uid string, held bool) {
	if held {
		m.held[uid] = true
	} else {
		delete(m.held, uid)
	}
}

// Misread lists pods whose do-not-disrupt annotation cannot be read, by namespace and name (see
// InvalidDoNotDisrupt). The objects are shared and must not be changed.
func (m *Mirror) Misread() []*corev1.Pod {
	m.lock()
	defer m.mu.Unlock()
	out := make([]*corev1.Pod, 0, len(m.misread))
	for uid := range m.misread {
		out = append(out, m.pods[uid])
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// noteMisread records a bound, unfinished pod whose annotation cannot be read.
func (m *Mirror) noteMisread(uid string, p *corev1.Pod) {
	if p.Spec.NodeName != "" && !Terminal(p) && InvalidDoNotDisrupt(p) != nil {
		m.misread[uid] = true
	} else {
		delete(m.misread, uid)
	}
}

// noteLapse records when a pod's do-not-disrupt duration ends.
func (m *Mirror) noteLapse(uid string, p *corev1.Pod) {
	if until := protectedUntil(p); until.IsZero() {
		delete(m.lapses, uid)
	} else {
		m.lapses[uid] = until
	}
}

// protectedUntil is when the pod's annotation stops protecting it; zero when it does not end by
// itself.
func protectedUntil(p *corev1.Pod) time.Time {
	value, ok := annotated(p)
	if !ok || value == "true" || p.Status.StartTime == nil {
		return time.Time{}
	}
	d, err := protectedFor(value)
	if err != nil {
		return time.Time{}
	}
	return p.Status.StartTime.Add(d)
}

// lapse updates the pods whose do-not-disrupt duration has ended.
func (m *Mirror) lapse(now time.Time) (woke []string) {
	for uid, until := range m.lapses {
		if !now.Before(until) {
			delete(m.lapses, uid)
			m.moved()
			woke = append(woke, m.tellPod(uid)...)
		}
	}
	return woke
}
