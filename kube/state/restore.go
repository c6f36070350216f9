// SPDX-License-Identifier: Apache-2.0

package state

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karve-dev/karve/engine/cluster"
)

// restore rebuilds the parts after a panic left them half changed: from the informers' stores,
// without the objects that are left out, and with the state that no list has (nominations, claims
// that no watch has shown yet, nodes that are to be deleted). The pairing of evicted pods with
// replacements is forgotten, as after a restart. Callers hold the lock.
func (m *Mirror) restore() {
	m.halfChanged = false
	if !m.listable() {
		return // the owner calls the Set methods itself, so there is no store to rebuild from
	}
	old := m.parts
	for !m.rebuild(&old) {
	}
	m.revision.increment()
	m.wake("")
}

func (m *Mirror) listable() bool {
	for _, f := range m.feeds {
		if f.store == nil {
			return false
		}
	}
	return len(m.feeds) > 0
}

// rebuild reports false when it panicked. It does not panic again for the same reason: either the
// object that caused it is left out then, or the old parts are dropped.
func (m *Mirror) rebuild(old *parts) bool {
	m.pdbs.clear()
	m.parts = newParts(&m.revision, m.pdbs, m.lifetimes)
	remembered := m.Panics.Try(restoring, "", func() { m.parts.copyBeforeObjects(old) }) == nil
	if remembered && !m.feedAll() {
		return false
	}
	if remembered && m.Panics.Try(restoring, "", func() { m.parts.copyAfterObjects(old) }) == nil {
		return true
	}
	*old = newParts(&m.revision, NewPDBs(), &Lifetimes{})
	return false
}

// restoring is the name under which panics of a restore are counted.
const restoring = "mirror"

// copyBeforeObjects copies from old parts the records that must exist before objects are added.
func (p *parts) copyBeforeObjects(old *parts) {
	p.builder.setSettings(old.builder.settings)
	for class, c := range old.catalogs.byClass {
		p.nodeEvents.setCatalog(class, c.original, c.quota)
	}
	p.nodes.copyMoving(old.nodes)
	p.podReplacements.copySuperseded(old.podReplacements)
	p.nominations.copyEnds(old.nominations)
	p.activity.copyFrom(old.activity)
	for name, since := range old.nodes.unseen {
		if c := old.nodes.claim(name); c != nil {
			p.nodes.expect(name, since)
			p.catalogs.copyAccepted(name, old.catalogs)
			p.nodeEvents.setClaim(c)
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
			if m.leftOut.has(f, o, now) {
				continue
			}
			if p := m.Panics.Try(handling, f.describe(o), func() { f.set(o, true) }); p != nil {
				m.reportLeftOut(f, o, p)
				return false
			}
			m.leftOut.forget(f, o)
		}
	}
	return true
}

// copyAfterObjects copies from old parts the records about pods and nodes that exist.
func (p *parts) copyAfterObjects(old *parts) {
	p.podReplacements.dropDeletedSuperseded(func(uid string) bool { return p.pods.get(uid) != nil })
	p.nodes.dropDeletedMoving()
	p.nominations.dropEndsOfDeleted(func(key string) bool { _, there := p.builder.node(key); return there })
	p.activity.dropDeleted(func(name string) bool { return p.nodes.node(name) != nil })
	for uid, key := range old.nominations.nodeOf {
		n, there := p.builder.node(key)
		if pod := p.pods.get(uid); pod != nil && there && !n.MarkedForDeletion && p.nominator.needsCapacity(pod) {
			p.nominations.add(uid, key)
			p.podWriter.write(uid)
		}
	}
	for _, pod := range old.builder.virtual {
		p.builder.setVirtual(nil, []cluster.Pod{pod})
	}
}
