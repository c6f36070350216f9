package kube

import karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

// news is what a change of the Mirror means to others. The zero news is none.
type news struct {
	woke  []string // UIDs of pods that need room since; "" when what can be bought changed
	hurry []string // those of them whose machine goes without being asked
}

// anything is the news that what can be bought changed.
func anything(changed bool) news {
	if !changed {
		return news{}
	}
	return news{woke: []string{""}}
}

// losing is the news that pods lose their home on the claim's machine. The claim may be nil.
func (m *Mirror) losing(c *karpv1.NodeClaim, pods []string) news {
	if m.OnUrgent != nil && Interrupted(c) {
		return news{woke: pods, hurry: pods}
	}
	return news{woke: pods}
}

func (n news) and(more news) news {
	return news{woke: append(n.woke, more.woke...), hurry: append(n.hurry, more.hurry...)}
}

// change has f change the Mirror, and passes the news on when the lock is free again: who
// hears it may ask the Mirror.
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

// lock locks the Mirror, and restores it if a panic left it half changed.
func (m *Mirror) lock() {
	m.mu.Lock()
	if m.spoilt {
		m.restore()
	}
}
