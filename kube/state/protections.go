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
	unchecked map[string]labelSet
	// checks are what takeChecked has yet to look at.
	checks         []check
	annotationEnds map[string]time.Time // UIDs of pods → end of their do-not-disrupt
	invalid        map[string]bool      // UIDs of pods with a do-not-disrupt that cannot be read
}

func newProtections(r *revision, pods *podStore, pdbs *PDBs) *protections {
	return &protections{
		revision: r, pods: pods, pdbs: pdbs, blocked: map[string]bool{}, unchecked: map[string]labelSet{},
		annotationEnds: map[string]time.Time{}, invalid: map[string]bool{},
	}
}

// check is the nodes of which the pods with any of the labels, by namespace, are to be looked at. A
// pod that is bound meanwhile is written anyway.
type check struct {
	nodes  []string
	labels map[string]labelSet
}

// checkedAtOnce is how many pods takeChecked looks at in one call, and those of one node more, so
// that the lock is held for milliseconds only: a rollout changes thousands of budgets, and each pod
// may have to be written.
const checkedAtOnce = 64

// setPDB adds or replaces a PodDisruptionBudget. Like removePDB it reports whether the change
// may concern known pods; takeChecked lists them. At startup, and during large rollouts, these
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
	if !s.pods.anyIn(namespace) {
		return false
	}
	for _, l := range change.about {
		if s.unchecked[namespace] == nil {
			s.unchecked[namespace] = labelSet{}
		}
		s.unchecked[namespace].add(l)
	}
	return len(change.about) > 0
}

// takeLapsed lists, once, the pods whose do-not-disrupt duration has ended.
func (s *protections) takeLapsed(now time.Time) (uids []string) {
	for uid, until := range s.annotationEnds {
		if !now.Before(until) {
			delete(s.annotationEnds, uid)
			s.revision.increment()
			uids = append(uids, uid)
		}
	}
	return uids
}

// queueChecks queues, for takeChecked, the pods whose PodDisruptionBudgets changed.
func (s *protections) queueChecks() {
	if len(s.unchecked) > 0 {
		s.checks = append(s.checks, check{s.pods.nodeNames(), s.unchecked})
		s.unchecked = map[string]labelSet{}
	}
}

// takeChecked looks at the next pods that are queued. It lists those that a PodDisruptionBudget now
// keeps from eviction for good, or no longer does, and reports whether more are queued.
func (s *protections) takeChecked() (uids []string, more bool) {
	for looked := 0; len(s.checks) > 0 && looked < checkedAtOnce; {
		c := &s.checks[0]
		if len(c.nodes) == 0 {
			s.checks = slices.Delete(s.checks, 0, 1)
			continue
		}
		on := s.pods.on(c.nodes[0])
		for uid, p := range on {
			if c.labels[p.Namespace].anyOf(p.Pod) && s.blocked[uid] != s.blocks(p) {
				uids = append(uids, uid)
			}
		}
		c.nodes, looked = c.nodes[1:], looked+max(1, len(on))
	}
	return uids, len(s.checks) > 0
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
