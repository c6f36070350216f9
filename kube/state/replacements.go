// SPDX-License-Identifier: Apache-2.0

package state

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// replacements pairs evicted pods with the pods that replace them: karve evicts a pod, and its
// owner creates another one. Until the scheduler has found the new pod unschedulable no pod is
// pending, and yet capacity is needed. Until then the evicted pod counts in its place.
type replacements struct {
	// unmatched has the evicted pods whose replacements do not exist yet: owner → UIDs.
	unmatched map[types.UID]map[string]bool
	// owners has, for each pod in unmatched, the owner it is listed under. A pod can lose its
	// owner while it terminates; the owner creates another pod all the same.
	owners     map[string]types.UID
	by         map[string]string // UID of an evicted pod → its replacement's, empty while none
	evicted    map[string]string // the reverse, until the replacement is bound
	superseded map[string]bool   // UIDs of pods whose replacements count instead, or are on their way
}

func newReplacements() *replacements {
	return &replacements{
		unmatched: map[types.UID]map[string]bool{}, owners: map[string]types.UID{},
		by: map[string]string{}, evicted: map[string]string{}, superseded: map[string]bool{},
	}
}

// expect records that the owner of the pod will replace it. It reports false when that is
// recorded already, or another pod counts instead.
func (s *replacements) expect(uid string, owner types.UID) bool {
	if _, known := s.by[uid]; known || s.superseded[uid] {
		return false
	}
	s.by[uid] = ""
	s.owners[uid] = owner
	set(s.unmatched, owner, uid)
	return true
}

// role says which pod counts where one replaces another.
type role int

const (
	// independent pods were not evicted and replace none.
	independent role = iota
	// evicted pods count, also while they terminate, until their replacements do.
	evicted
	// superseded pods do not count any more: their replacements do, or are on their way.
	superseded
	// replacing pods replace an evicted one and are not bound yet.
	replacing
)

func (s *replacements) roleOf(uid string) role {
	if s.superseded[uid] {
		return superseded
	}
	if _, ok := s.by[uid]; ok {
		return evicted
	}
	if _, ok := s.evicted[uid]; ok {
		return replacing
	}
	return independent
}

// match finds the evicted pod that a new pod replaces. Owners do not say which, and it does not
// matter: the pods of one owner are alike. A pod that is not terminating has not been evicted
// yet, or a PodDisruptionBudget prevents it.
func (s *replacements) match(replacement string, owner types.UID, terminating func(old string) bool) {
	for _, old := range slices.Sorted(maps.Keys(s.unmatched[owner])) {
		if terminating(old) {
			s.by[old], s.evicted[replacement] = replacement, old
			s.stopExpecting(old)
			return
		}
	}
}

// stopExpecting records that no replacement is expected for this pod any more.
func (s *replacements) stopExpecting(uid string) {
	unset(s.unmatched, s.owners[uid], uid)
	delete(s.owners, uid)
}

// of is the UID of the pod that replaces this one; empty while there is none.
func (s *replacements) of(uid string) string { return s.by[uid] }

// evictedBy is the UID of the evicted pod that an unbound pod replaces; false when it replaces
// none.
func (s *replacements) evictedBy(uid string) (old string, ok bool) {
	old, ok = s.evicted[uid]
	return old, ok
}

// markBound records that a replacement is bound: it counts for itself from then on.
func (s *replacements) markBound(uid string) { delete(s.evicted, uid) }

// supersede records that another pod counts instead of this one.
func (s *replacements) supersede(uid string) { s.superseded[uid] = true }

func (s *replacements) isSuperseded(uid string) bool { return s.superseded[uid] }

// effectivePod is the pod that counts: the replacement of this one once that does, else itself.
func (s *replacements) effectivePod(uid string) string {
	if replacement := s.by[uid]; replacement != "" && s.superseded[uid] {
		return replacement
	}
	return uid
}

// forget forgets a pod that was deleted, whether it was evicted or a replacement. If a
// replacement is deleted, the next pod of its owner is treated like any other.
func (s *replacements) forget(uid string) {
	delete(s.superseded, uid)
	s.stopExpecting(uid)
	delete(s.by, uid)
	if old := s.evicted[uid]; s.by[old] == uid {
		s.by[old] = ""
	}
	delete(s.evicted, uid)
}

// copySuperseded copies from an old store which pods are superseded.
func (s *replacements) copySuperseded(old *replacements) { maps.Copy(s.superseded, old.superseded) }

// keepSuperseded forgets the superseded pods that do not exist.
func (s *replacements) keepSuperseded(exists func(uid string) bool) {
	maps.DeleteFunc(s.superseded, func(uid string, _ bool) bool { return !exists(uid) })
}
