// SPDX-License-Identifier: Apache-2.0

package state

import "github.com/karve-dev/karve/engine/cluster"

// snapshotBuilder is a cluster.Builder that a decision can take, to use it without the Mirror's
// lock. Changes that come while a decision has it are kept, and the next decision applies them
// first. The lock guards the fields, but not the Builder that a decision has taken.
type snapshotBuilder struct {
	// inner is nil while a decision has it. A decision that panics does not put it back: it may
	// have left changes of its own there. The next decision makes a new one.
	inner *cluster.Builder
	// used is set once a decision has taken the Builder.
	used bool
	// pending are the changes that inner lacks: for each object the newest, in the order in which
	// the objects changed first. positions has the index of each object's change.
	pending   []builderChange
	positions map[objectKey]int
	size      builderSize // of inner; it belongs to the decision that has inner, too
}

// objectKey identifies an object of the Snapshot.
type objectKey struct{ kind, name string }

// builderChange sets the newest value of one object, or removes it. It does not depend on earlier
// changes of the object, so it can replace them.
type builderChange func(*cluster.Builder)

func newSnapshotBuilder() snapshotBuilder {
	return snapshotBuilder{inner: cluster.NewBuilder()}
}

// write makes a change at once, or keeps it while inner is taken or lacks earlier changes.
func (s *snapshotBuilder) write(of objectKey, c builderChange) {
	if s.inner != nil && len(s.pending) == 0 {
		c(s.inner)
		return
	}
	s.keepChange(of, c)
}

// keep is write for a change with which the Builder looks at many other objects, all nodes for
// example: it is kept for the next decision, so that no event waits for it. Until the first decision
// it is made at once, since the changes that follow it would all have to be kept, too: those of
// every object that is listed at the start.
func (s *snapshotBuilder) keep(of objectKey, c builderChange) {
	if !s.used {
		s.write(of, c)
		return
	}
	s.keepChange(of, c)
}

func (s *snapshotBuilder) keepChange(of objectKey, c builderChange) {
	if at, ok := s.positions[of]; ok {
		s.pending[at] = c
		return
	}
	if s.positions == nil {
		s.positions = map[objectKey]int{}
	}
	s.positions[of] = len(s.pending)
	s.pending = append(s.pending, c)
}

// setPod adds or replaces a pod, which may be virtual.
func (s *snapshotBuilder) setPod(p cluster.Pod) {
	s.write(objectKey{"pod", p.UID}, func(b *cluster.Builder) { b.SetPod(p) })
}

// removePod removes a pod, which may be virtual.
func (s *snapshotBuilder) removePod(uid string) {
	s.write(objectKey{"pod", uid}, func(b *cluster.Builder) { b.RemovePod(uid) })
}

// take returns the Builder, nil when there is none, and the changes that it lacks.
func (s *snapshotBuilder) take() (inner *cluster.Builder, lacks []builderChange) {
	inner, lacks = s.inner, s.pending
	s.inner, s.pending, s.positions, s.used = nil, nil, nil, true
	return inner, lacks
}

// putBack ends the use of a Builder that take returned, or that replaces it.
func (s *snapshotBuilder) putBack(inner *cluster.Builder) { s.inner = inner }

// A cluster.Builder interns labels and values and never frees the numbers. They are of no use
// once the objects are deleted.

// spareEntries is how many unused numbers or shared values never cause a renewal, however few are
// in use.
const spareEntries = 1024

// builderSize is how many strings were interned when a cluster.Builder was made, and the most
// objects that it has had since. Zero is for one that is not filled yet.
type builderSize struct {
	interned, mostObjects int
}

// sizeOf is the size of a Builder that was made just now.
func sizeOf(b *cluster.Builder) builderSize {
	return builderSize{interned: max(1, b.InternedCount()), mostObjects: b.ObjectCount()}
}

// wasteful reports whether a new Builder with the same objects would need much less memory: most of
// the interned strings may be unused, or most of the objects are deleted. Between two renewals at
// least as many objects are added or deleted as the Snapshot has, so the cost of renewals is
// always a small part of the cost of the changes.
func (s *builderSize) wasteful(b *cluster.Builder) bool {
	interned, objects := b.InternedCount(), b.ObjectCount()
	s.mostObjects = max(s.mostObjects, objects)
	if s.interned == 0 { // everything listed at the start is in use
		s.interned = interned
		return false
	}
	return interned > 2*s.interned+spareEntries || s.mostObjects > 4*(objects+spareEntries)
}
