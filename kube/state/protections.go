// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
)

// protections records which pods a PodDisruptionBudget forbids to evict for good, when
// do-not-disrupt annotations end, and which of them cannot be read.
type protections struct {
	revision *revision
	pods     *podStore
	pdbs     *PDBs
	blocked  map[string]bool // UIDs of pods in the Snapshot that a budget forbids to evict for good
	// unchecked has, by namespace, the labels of pods whose PodDisruptionBudgets changed.
	unchecked      map[string]map[label]bool
	annotationEnds map[string]time.Time // UIDs of pods → end of their do-not-disrupt
	invalid        map[string]bool      // UIDs of pods with a do-not-disrupt that cannot be read
}

func newProtections(r *revision, pods *podStore, pdbs *PDBs) *protections {
	return &protections{
		revision: r, pods: pods, pdbs: pdbs, blocked: map[string]bool{}, unchecked: map[string]map[label]bool{},
		annotationEnds: map[string]time.Time{}, invalid: map[string]bool{},
	}
}

// setPDB adds or replaces a PodDisruptionBudget. Like removePDB it reports whether the change
// may concern known pods; takeDue lists them. At startup, and during large rollouts, these
// objects change by the hundred.
func (s *protections) setPDB(b *policyv1.PodDisruptionBudget) bool {
	return s.checkLater(b.Namespace, s.pdbs.set(b))
}

// removePDB forgets a PodDisruptionBudget.
func (s *protections) removePDB(b *policyv1.PodDisruptionBudget) bool {
	return s.checkLater(b.Namespace, s.pdbs.remove(b))
}

func (s *protections) checkLater(namespace string, change pdbChange) bool {
	s.revision.incrementIf(change.any)
	if len(s.pods.in(namespace)) == 0 {
		return false
	}
	for _, l := range change.about {
		set(s.unchecked, namespace, l)
	}
	return len(change.about) > 0
}

// takeDue lists, once, the pods to look at again: those whose PodDisruptionBudgets changed, and
// those whose do-not-disrupt duration has ended.
func (s *protections) takeDue(now time.Time) (uids []string) {
	for namespace, about := range s.unchecked {
		for uid := range s.pods.in(namespace) {
			p := s.pods.get(uid)
			if hasAny(p.Pod, about) && s.blocked[uid] != s.blocks(p) {
				uids = append(uids, uid)
			}
		}
	}
	clear(s.unchecked)
	for uid, until := range s.annotationEnds {
		if !now.Before(until) {
			delete(s.annotationEnds, uid)
			s.revision.increment()
			uids = append(uids, uid)
		}
	}
	return uids
}

func hasAny(p *corev1.Pod, labels map[label]bool) bool {
	for l := range labels {
		if l.of(p) {
			return true
		}
	}
	return false
}

// blocks reports whether a PodDisruptionBudget forbids the eviction of a bound pod however long
// karve waits. No capacity is sought for it elsewhere: that capacity would not be used.
func (s *protections) blocks(p *knownPod) bool {
	return p.Spec.NodeName != "" && p.facts.EvictableUnlessProtected && s.pdbs.Ask(p.Pod).ForGood
}

// record records what protects a pod that is written to the snapshot, and returns whether a
// PodDisruptionBudget forbids its eviction for good.
func (s *protections) record(uid string, p *knownPod, now time.Time) (blocked bool) {
	if until := p.facts.ProtectedUntil; until.After(now) {
		s.annotationEnds[uid] = until
	} else {
		delete(s.annotationEnds, uid)
	}
	if blocked = s.blocks(p); blocked {
		s.blocked[uid] = true
	} else {
		delete(s.blocked, uid)
	}
	return blocked
}

// forgetBlocked records that the snapshot does not have the pod any more.
func (s *protections) forgetBlocked(uid string) { delete(s.blocked, uid) }

// recordInvalidAnnotation records a bound, unfinished pod whose annotation cannot be read.
func (s *protections) recordInvalidAnnotation(uid string, p *knownPod) {
	if p.Spec.NodeName != "" && !p.facts.Terminal && p.facts.InvalidDoNotDisrupt {
		s.invalid[uid] = true
	} else {
		delete(s.invalid, uid)
	}
}

// listInvalid lists the pods whose annotation cannot be read, by namespace and name.
func (s *protections) listInvalid() []*corev1.Pod {
	out := s.pods.list(s.invalid)
	slices.SortFunc(out, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// forget forgets a pod that was deleted.
func (s *protections) forget(uid string) {
	delete(s.annotationEnds, uid)
	delete(s.invalid, uid)
}
