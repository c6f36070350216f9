package kube

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
)

// PodBudgets are the PodDisruptionBudgets of the cluster, kept current.
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

// judgeLater has the pods in question looked at again before the World is read next: at
// the start, and when much is deployed, budgets change by the hundred. It reports
// whether that may be demand which somebody waits for.
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

// judge looks again at the pods whose budgets changed, and returns those that need room
// since.
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

// isHeld reports whether a bound pod will not leave its node by eviction whatever time
// passes. No room is looked for elsewhere: it would stand empty.
func (m *Mirror) isHeld(p *corev1.Pod) bool {
	return p.Spec.NodeName != "" && Evictable(p) && m.podBudgets.Refused(p).ForGood
}

// noteHeld remembers what the World was told of a pod.
func (m *Mirror) noteHeld(uid string, held bool) {
	if held {
		m.held[uid] = true
	} else {
		delete(m.held, uid)
	}
}

// Misread lists pods whose do-not-disrupt annotation cannot be read, by namespace and
// name (see InvalidDoNotDisrupt). The objects are shared: look, do not touch.
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

// noteMisread remembers a pod that runs and whose annotation cannot be read.
func (m *Mirror) noteMisread(uid string, p *corev1.Pod) {
	if p.Spec.NodeName != "" && !Terminal(p) && InvalidDoNotDisrupt(p) != nil {
		m.misread[uid] = true
	} else {
		delete(m.misread, uid)
	}
}

// noteLapse remembers when a pod stops asking to be left alone.
func (m *Mirror) noteLapse(uid string, p *corev1.Pod) {
	if until := protectedUntil(p); until.IsZero() {
		delete(m.lapses, uid)
	} else {
		m.lapses[uid] = until
	}
}

// protectedUntil is when the pod's annotation stops protecting it; zero when it does
// not by itself.
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

// lapse looks again at the pods that stopped asking to be left alone.
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
