// SPDX-License-Identifier: Apache-2.0

package state

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// podReplacements pairs evicted pods with the pods that replace them: karve evicts a pod, and its
// owner creates another one. Until the scheduler has found the new pod unschedulable no pod is
// pending, and yet capacity is needed. Until then the evicted pod counts in its place:
// a pod counts when the Snapshot has it as the one that needs capacity.
type podReplacements struct {
	// unmatched has the evicted pods whose replacements do not exist yet: owner → UIDs.
	unmatched map[types.UID]map[string]bool
	// owners has, for each pod in unmatched, the owner it is listed under. A pod can lose its
	// owner while it terminates; the owner creates another pod all the same.
	owners        map[string]types.UID
	byEvicted     map[string]string // UID of an evicted pod → its replacement's, empty while none
	byReplacement map[string]string // the reverse, until the replacement is bound
	superseded    map[string]bool   // UIDs of pods whose replacements count instead, or are on their way
}

func newPodReplacements() *podReplacements {
	return &podReplacements{
		unmatched: map[types.UID]map[string]bool{}, owners: map[string]types.UID{},
		byEvicted: map[string]string{}, byReplacement: map[string]string{}, superseded: map[string]bool{},
	}
}

// expect records that the owner of the pod will replace it. It reports false when that is
// recorded already, or another pod counts instead.
func (s *podReplacements) expect(uid string, owner types.UID) bool {
	if _, known := s.byEvicted[uid]; known || s.superseded[uid] {
		return false
	}
	s.byEvicted[uid] = ""
	s.owners[uid] = owner
	set(s.unmatched, owner, uid)
	return true
}

// role says which pod counts where one replaces another.
type role int

const (
	// independent pods were not evicted and replace none.
	independent role = iota
	// evicting pods are evicted or about to be. They count, also while they terminate, until their
	// replacements do.
	evicting
	// superseded pods do not count any more: their replacements do, or are on their way.
	superseded
	// replacing pods replace an evicted one and are not bound yet.
	replacing
)

func (s *podReplacements) roleOf(uid string) role {
	if s.superseded[uid] {
		return superseded
	}
	if _, ok := s.byEvicted[uid]; ok {
		return evicting
	}
	if _, ok := s.byReplacement[uid]; ok {
		return replacing
	}
	return independent
}

// pair records which evicted pod a new pod replaces, if any. Owners do not say which, and it does
// not matter: the pods of one owner are alike. A pod that is not terminating has not been evicted
// yet, or a PodDisruptionBudget prevents it.
func (s *podReplacements) pair(replacement string, owner types.UID, terminating func(old string) bool) {
	for _, old := range slices.Sorted(maps.Keys(s.unmatched[owner])) {
		if terminating(old) {
			s.byEvicted[old], s.byReplacement[replacement] = replacement, old
			s.stopExpecting(old)
			return
		}
	}
}

// stopExpecting records that no replacement is expected for this pod any more.
func (s *podReplacements) stopExpecting(uid string) {
	unset(s.unmatched, s.owners[uid], uid)
	delete(s.owners, uid)
}

// replacementOf is the UID of the pod that replaces this one; empty while there is none.
func (s *podReplacements) replacementOf(uid string) string { return s.byEvicted[uid] }

// predecessorOf is the UID of the evicted pod that an unbound pod replaces; false when it replaces
// none.
func (s *podReplacements) predecessorOf(uid string) (old string, ok bool) {
	old, ok = s.byReplacement[uid]
	return old, ok
}

// markBound records that a replacement is bound: it counts for itself from then on.
func (s *podReplacements) markBound(uid string) { delete(s.byReplacement, uid) }

// supersede records that another pod counts instead of this one.
func (s *podReplacements) supersede(uid string) { s.superseded[uid] = true }

func (s *podReplacements) isSuperseded(uid string) bool { return s.superseded[uid] }

// effectivePod is the pod that counts: the replacement of this one once that does, else itself.
func (s *podReplacements) effectivePod(uid string) string {
	if replacement := s.byEvicted[uid]; replacement != "" && s.superseded[uid] {
		return replacement
	}
	return uid
}

// forget forgets a pod that was deleted, whether it was evicted or a replacement. If a
// replacement is deleted, the next pod of its owner is treated like any other.
func (s *podReplacements) forget(uid string) {
	delete(s.superseded, uid)
	s.stopExpecting(uid)
	delete(s.byEvicted, uid)
	if old := s.byReplacement[uid]; s.byEvicted[old] == uid {
		s.byEvicted[old] = ""
	}
	delete(s.byReplacement, uid)
}

// copySuperseded copies from an old store which pods are superseded.
func (s *podReplacements) copySuperseded(old *podReplacements) {
	maps.Copy(s.superseded, old.superseded)
}

// dropDeletedSuperseded forgets the superseded pods that do not exist.
func (s *podReplacements) dropDeletedSuperseded(exists func(uid string) bool) {
	maps.DeleteFunc(s.superseded, func(uid string, _ bool) bool { return !exists(uid) })
}
