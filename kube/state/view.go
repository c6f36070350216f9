// SPDX-License-Identifier: Apache-2.0

package state

import (
	"sync"
	"time"

	"github.com/karve-dev/karve/engine/cluster"
)

// View wakes for pods that now need capacity, and calls f with the Snapshot, which is valid until f
// returns. One f runs at a time. Events, queries and records of decisions do not wait for it: they
// take effect at once for all but f, whose Snapshot stays as it is until the next View.
func (m *Mirror) View(f func(*cluster.Snapshot)) {
	due := func() wakeups { return wakeups{pods: m.parts.writeLapsed(time.Now())} }
	m.use(due, func(b *cluster.Builder) { f(b.Snapshot()) })
}

// Tidy frees memory that is not needed any more. View and DropLapsed together do so too: Tidy is
// for a process that follows the cluster and makes no decisions.
func (m *Mirror) Tidy() {
	due := func() wakeups {
		waiting := m.parts.writeLapsed(time.Now())
		m.parts.tidy()
		return wakeups{pods: waiting}
	}
	m.use(due, func(*cluster.Builder) {})
}

// use makes the changes that are due, and calls f with the cluster.Builder, which has all changes
// until then. Only due runs under the lock that events wait for. If f panics, the next use has
// another Builder with the same values.
func (m *Mirror) use(due func() wakeups, f func(*cluster.Builder)) {
	m.deciding.Lock()
	defer m.deciding.Unlock()
	b, inner := m.takeBuilder(due)
	f(inner)
	m.putBack(b, inner)
}

// takeBuilder takes the cluster.Builder, and brings it up to date without the lock. If that panics,
// an object is the cause: restoring the Mirror shows which, and leaves it out.
func (m *Mirror) takeBuilder(due func() wakeups) (*builder, *cluster.Builder) {
	for {
		m.catchUp()
		var b *builder
		var inner *cluster.Builder
		var lacks []builderChange
		m.change(func() wakeups {
			n := due()
			b = m.parts.builder
			inner, lacks = b.snapshot.take()
			return n
		})
		renewed := false
		p := m.Panics.Try(restoring, "", func() { inner, renewed = b.update(inner, lacks, &m.mu) })
		switch {
		case p != nil && !m.listable():
			panic(p)
		case p != nil:
			m.mu.Lock()
			m.halfChanged = true
			m.mu.Unlock()
		case renewed:
			m.putBack(b, inner) // to take it again with the changes since
		default:
			return b, inner
		}
	}
}

func (m *Mirror) putBack(b *builder, inner *cluster.Builder) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b.snapshot.putBack(inner)
}

// update makes the changes that inner lacks. It makes a new Builder instead if there is none or the
// old one is wasteful; the new one lacks the changes that were made meanwhile. Callers have taken
// inner and do not hold the lock.
func (s *builder) update(inner *cluster.Builder, lacks []builderChange, lock sync.Locker) (updated *cluster.Builder, renewed bool) {
	var former []string
	if inner != nil {
		for _, c := range lacks {
			c(inner)
		}
		if !s.snapshot.size.wasteful(inner) {
			return inner, false
		}
		former = inner.SelectorLabels()
	}
	updated = s.renewed(former, lock)
	s.snapshot.size = sizeOf(updated)
	return updated, true
}
