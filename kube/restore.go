package kube

import (
	"maps"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// restore rebuilds the state after a panic left it half changed: from the informers' stores,
// without the objects that are left out, and with what no list has (promises, claims that no
// watch has shown yet, nodes that are to be deleted). The pairing of evicted pods with
// replacements is forgotten, as after a restart. Callers hold the lock.
func (m *Mirror) restore() {
	m.spoilt = false
	if !m.listable() {
		return // the owner calls the Set methods itself, so there is no store to rebuild from
	}
	old := m.state
	for !m.rebuild(&old) {
	}
	m.moved()
	m.wake("")
}

// rebuild reports false when it panicked. It does not panic again for the same reason: either the
// object that caused it is left out then, or the old state is dropped.
func (m *Mirror) rebuild(old *state) bool {
	budgets := m.podBudgets // other packages hold a pointer to it
	budgets.clear()
	m.state = newState()
	m.podBudgets = budgets
	remembered := m.Panics.Try(restoring, "", func() { m.recallBefore(old) }) == nil
	if remembered && !m.feedAll() {
		return false
	}
	if remembered && m.Panics.Try(restoring, "", func() { m.recallAfter(old) }) == nil {
		return true
	}
	*old = state{}
	return false
}

// restoring is the name under which panics of a restore are counted.
const restoring = "mirror"

func (m *Mirror) listable() bool {
	for _, f := range m.feeds {
		if f.store == nil {
			return false
		}
	}
	return len(m.feeds) > 0
}

// recallBefore restores the state that must be there before objects are added.
func (m *Mirror) recallBefore(old *state) {
	m.settings = old.settings
	m.builder.SetSettings(old.settings)
	for class, cat := range old.catalogs {
		m.setCatalog(class, cat.original, old.budgets[class])
	}
	maps.Copy(m.moving, old.moving)
	maps.Copy(m.superseded, old.superseded)
	maps.Copy(m.until, old.until)
	maps.Copy(m.activity, old.activity)
	for name, since := range old.unseen {
		if c := old.claims[name]; c != nil {
			m.unseen[name], m.offerings[name] = since, old.offerings[name]
			m.setClaim(c)
		}
	}
}

// feedAll adds all objects of the informers' stores. It reports false when an object caused a
// panic; that object is left out from then on.
func (m *Mirror) feedAll() bool {
	now := time.Now()
	for _, f := range m.feeds {
		for _, x := range f.store.List() {
			o := x.(client.Object)
			if m.leaves(f, o, now) {
				continue
			}
			if p := m.Panics.Try(handling, f.about(o), func() { f.set(o, true) }); p != nil {
				m.noteLeftOut(f, o, p)
				return false
			}
			delete(m.leftOut, f.key(o))
		}
	}
	return true
}

// recallAfter restores what is recorded about pods and nodes that exist.
func (m *Mirror) recallAfter(old *state) {
	maps.DeleteFunc(m.superseded, func(uid string, _ bool) bool { return m.pods[uid] == nil })
	maps.DeleteFunc(m.moving, func(key string, _ bool) bool { return m.claims[key] == nil })
	maps.DeleteFunc(m.until, func(key string, _ time.Time) bool { _, there := m.worldNodes[key]; return !there })
	maps.DeleteFunc(m.activity, func(name string, _ time.Time) bool { return m.nodes[name] == nil })
	for uid, key := range old.promises {
		w, there := m.worldNodes[key]
		if pod := m.pods[uid]; pod != nil && there && !w.Leaving && m.needsRoom(pod) {
			m.promises[uid] = key
			set(m.promised, key, uid)
			m.tellPod(uid)
		}
	}
	maps.Copy(m.virtualPods, old.virtualPods)
	for _, p := range m.virtualPods {
		m.builder.SetPod(p)
	}
}

// clear forgets all budgets.
func (b *PodBudgets) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spaces = nil
}
