package kube

import karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

// news is what a change of the Mirror must report to its callbacks. The zero news reports
// nothing.
type news struct {
	woke  []string // UIDs of pods that now need capacity; "" for other changes
	hurry []string // those of them whose node is interrupted
}

// anything reports, if changed is set, a change other than of a pod that a new plan may depend on.
func anything(changed bool) news {
	if !changed {
		return news{}
	}
	return news{woke: []string{""}}
}

// losing reports pods that lose the node of the claim. The claim may be nil.
func (m *Mirror) losing(c *karpv1.NodeClaim, pods []string) news {
	if m.OnUrgent != nil && Interrupted(c) {
		return news{woke: pods, hurry: pods}
	}
	return news{woke: pods}
}

func (n news) and(more news) news {
	return news{woke: append(n.woke, more.woke...), hurry: append(n.hurry, more.hurry...)}
}

// change runs f under the lock and calls the callbacks after the lock is released: what they
// trigger may use the Mirror.
func (m *Mirror) change(f func() news) {
	n := m.locked(f)
	for _, uid := range n.hurry {
		m.OnUrgent(uid)
	}
	for _, uid := range n.woke {
		m.wake(uid)
	}
}

func (m *Mirror) locked(f func() news) news {
	m.lock()
	defer m.mu.Unlock()
	m.spoilt = true
	n := f()
	m.spoilt = false
	return n
}

// lock locks the Mirror, and restores the state if a panic left it half changed.
func (m *Mirror) lock() {
	m.mu.Lock()
	if m.spoilt {
		m.restore()
	}
}
