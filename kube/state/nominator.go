// SPDX-License-Identifier: Apache-2.0

package state

import (
	"time"

	"github.com/karve-dev/karve/engine/cluster"
)

// NominatedFor is how long a nomination to an initialized node lasts: twice the longest batch,
// since the scheduler may need a moment.
const NominatedFor = 20 * time.Second

// nominator nominates pods to nodes, and ends nominations that cannot be relied on any more.
type nominator struct {
	pods            *podStore
	nodes           *nodeStore
	nominations     *nominations
	podReplacements *podReplacements
	evictions       *evictions
	builder         *builder
	podWriter       *podWriter
}

// nominate nominates pods to a node, by its key. It ignores a node that is unknown or marked for
// deletion, and pods that need no capacity.
func (s *nominator) nominate(key string, pods []cluster.PodRef) {
	until := time.Now().Add(NominatedFor)
	if !s.builder.setNominatedUntil(key, until) {
		return
	}
	s.nominations.extend(key, until)
	for _, p := range pods {
		s.nominatePod(p.UID, key)
	}
}

// nominatePod nominates a pod, or the pod that replaces it.
func (s *nominator) nominatePod(uid, key string) {
	uid = s.podReplacements.effectivePod(uid)
	pod := s.pods.get(uid)
	if pod == nil || !s.needsCapacity(pod) {
		return
	}
	if replacement := s.podReplacements.replacementOf(uid); s.pods.get(replacement) != nil {
		s.evictions.supersede(uid)
		uid = replacement
	}
	s.nominations.add(uid, key)
	s.podWriter.write(uid)
}

// needsCapacity reports whether a pod may be nominated: it is unbound, or its node is marked for
// deletion, and no replacement counts in its place.
func (s *nominator) needsCapacity(p *knownPod) bool {
	return !s.podReplacements.isSuperseded(string(p.UID)) &&
		(p.Spec.NodeName == "" || s.builder.markedForDeletion(s.nodes.key(p.Spec.NodeName)))
}

// endOvercommitted ends the nominations to an initialized node, by its name, once other pods use
// so much of it that not all nominated pods fit. The next decision nominates again those that do.
func (s *nominator) endOvercommitted(node string) (waiting []string) {
	key := s.nodes.key(node)
	n, _ := s.builder.node(key)
	if len(s.nominations.to(key)) == 0 || !n.Initialized {
		return nil
	}
	free := n.Allocatable
	for _, uids := range []map[string]bool{s.pods.on(node), s.nominations.to(key)} {
		for uid := range uids {
			p, _ := s.builder.pod(uid)
			free = free.Sub(p.Requests)
		}
	}
	for _, left := range free {
		if left < 0 {
			return s.podWriter.removeNominations(key)
		}
	}
	return nil
}

// endLapsed ends the nominations that have lapsed.
func (s *nominator) endLapsed(now time.Time) (waiting []string) {
	for _, key := range s.nominations.nodeKeys() {
		if s.lapsed(key, now) {
			waiting = append(waiting, s.podWriter.removeNominations(key)...)
		}
	}
	return waiting
}

func (s *nominator) lapsed(key string, now time.Time) bool {
	n, ok := s.builder.node(key)
	switch {
	case !ok || n.MarkedForDeletion || n.TakesNoPods:
		return true
	case n.Initialized:
		return now.After(s.nominations.until(key)) && !s.awaitsMove(key)
	}
	return false
}

// awaitsMove reports whether a pod that runs on a moving node is nominated to this one. Such a
// nomination does not lapse, since the scheduler cannot bind the pod yet.
func (s *nominator) awaitsMove(key string) bool {
	if !s.nodes.anyMoving() {
		return false
	}
	for uid := range s.nominations.to(key) {
		if p := s.pods.get(uid); p != nil && p.Spec.NodeName != "" && s.nodes.isMoving(s.nodes.key(p.Spec.NodeName)) {
			return true
		}
	}
	return false
}
