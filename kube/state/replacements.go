// SPDX-License-Identifier: Apache-2.0

package state

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/karve-dev/karve/kube"
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

// begin records that the owner of the pod will replace it. It reports false when that is
// recorded already, or another pod counts instead.
func (s *replacements) begin(uid string, owner types.UID) bool {
	if _, known := s.by[uid]; known || s.superseded[uid] {
		return false
	}
	s.by[uid] = ""
	s.owners[uid] = owner
	set(s.unmatched, owner, uid)
	return true
}

// counts reports whether a terminating pod counts in place of its replacement.
func (s *replacements) counts(p *corev1.Pod) bool {
	_, evicted := s.by[string(p.UID)]
	return evicted && p.DeletionTimestamp != nil && !s.superseded[string(p.UID)]
}

// match finds the evicted pod that a new pod replaces. Owners do not say which, and it does not
// matter: the pods of one owner are alike. A pod that is not terminating has not been evicted
// yet, or a PodDisruptionBudget prevents it.
func (s *replacements) match(p *corev1.Pod, terminating func(uid string) bool) {
	for _, uid := range slices.Sorted(maps.Keys(s.unmatched[kube.OwnerOf(p)])) {
		if terminating(uid) {
			s.by[uid], s.evicted[string(p.UID)] = string(p.UID), uid
			s.expectNone(uid)
			return
		}
	}
}

// expectNone records that no replacement is expected for this pod any more.
func (s *replacements) expectNone(uid string) {
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

// bound records that a replacement is bound: it counts for itself from then on.
func (s *replacements) bound(uid string) { delete(s.evicted, uid) }

// supersede records that another pod counts instead of this one.
func (s *replacements) supersede(uid string) { s.superseded[uid] = true }

func (s *replacements) isSuperseded(uid string) bool { return s.superseded[uid] }

// counting is the pod that takes capacity promised to this one: its replacement once that counts,
// else the pod itself.
func (s *replacements) counting(uid string) string {
	if replacement := s.by[uid]; replacement != "" && s.superseded[uid] {
		return replacement
	}
	return uid
}

// forget forgets a pod that was deleted, whether it was evicted or a replacement. If a
// replacement is deleted, the next pod of its owner is treated like any other.
func (s *replacements) forget(uid string) {
	delete(s.superseded, uid)
	s.expectNone(uid)
	delete(s.by, uid)
	if old := s.evicted[uid]; s.by[old] == uid {
		s.by[old] = ""
	}
	delete(s.evicted, uid)
}

// recallSuperseded copies from an old store which pods are superseded.
func (s *replacements) recallSuperseded(old *replacements) { maps.Copy(s.superseded, old.superseded) }

// keepSuperseded forgets the superseded pods that do not exist.
func (s *replacements) keepSuperseded(exists func(uid string) bool) {
	maps.DeleteFunc(s.superseded, func(uid string, _ bool) bool { return !exists(uid) })
}
