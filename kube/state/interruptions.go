// SPDX-License-Identifier: Apache-2.0

package state

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// interruptions finds the pods that need capacity urgently because the cloud interrupts a node.
type interruptions struct {
	pods            *podStore
	nodes           *nodeStore
	nominations     *nominations
	podReplacements *podReplacements
	// owners has the owners that lost a pod together with its node before capacity for a
	// replacement was found, and when. Pods with little or no grace period are deleted before
	// any plan is made. Owners do not say which pod a new one replaces, so all pods that an
	// owner creates within ownerUrgentFor count as replacements.
	owners map[types.UID]time.Time
}

// ownerUrgentFor is longer than owners and the scheduler take until a pod is known to need
// capacity.
const ownerUrgentFor = time.Minute

// recordLost records the owner of a pod that was deleted with its interrupted node, unless
// there is capacity for the replacement. Call it while the pod is still known.
func (s *interruptions) recordLost(p *knownPod) {
	owner, finished := p.facts.Owner, p.facts.Terminal && !p.facts.Terminating
	if owner == "" || p.facts.DaemonSet != "" || finished || !s.nodes.interrupted(p.Spec.NodeName) || s.hasCapacity(string(p.UID)) {
		return
	}
	now := time.Now()
	s.forgetOld(now)
	s.owners[owner] = now
}

// forgetOld forgets the owners that lost their pod ownerUrgentFor ago or earlier.
func (s *interruptions) forgetOld(now time.Time) {
	maps.DeleteFunc(s.owners, func(_ types.UID, since time.Time) bool { return now.Sub(since) >= ownerUrgentFor })
}

// hasCapacity reports whether there is capacity for the pod or its replacement: it is
// nominated to a node, or the replacement is bound.
func (s *interruptions) hasCapacity(uid string) bool {
	effective := s.podReplacements.effectivePod(uid)
	if _, nominated := s.nominations.of(effective); nominated {
		return true
	}
	replacement := s.pods.get(effective)
	return effective != uid && replacement != nil && replacement.Spec.NodeName != ""
}

// urgent reports whether the pod runs on an interrupted node, or replaces a pod that does or did.
func (s *interruptions) urgent(p *knownPod) bool {
	old := p
	if evicted, ok := s.podReplacements.predecessorOf(string(p.UID)); ok {
		old = s.pods.get(evicted)
	}
	if old != nil && s.nodes.interrupted(old.Spec.NodeName) {
		return true
	}
	since, lost := s.owners[p.facts.Owner]
	return lost && p.Spec.NodeName == "" && time.Since(since) < ownerUrgentFor
}
