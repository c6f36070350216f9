// SPDX-License-Identifier: Apache-2.0

package state

import (
	"time"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/quantity"
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

// nominate nominates pods to a node, by its key, and returns those that still need capacity: the
// node is unknown or marked for deletion, or other pods have taken its capacity since the decision.
// It ignores pods that need no capacity any more, and pods that are nominated already.
func (s *nominator) nominate(key string, pods []cluster.PodRef) (waiting []string) {
	until := time.Now().Add(NominatedFor)
	exists := s.builder.setNominatedUntil(key, until)
	if exists {
		s.nominations.extend(key, until)
	}
	n, _ := s.builder.node(key)
	free := s.free(n)
	for _, p := range pods {
		uid := s.podReplacements.effectivePod(p.UID)
		if _, nominated := s.nominations.of(uid); nominated || !s.needsCapacity(s.pods.get(uid)) {
			continue
		}
		pod, _ := s.builder.pod(uid)
		// Until a node is initialized its capacity is an estimate, and kept for these pods.
		if !exists || n.Initialized && !holds(free, pod.Requests) {
			waiting = append(waiting, uid)
			continue
		}
		s.nominatePod(uid, key)
		free = free.Sub(pod.Requests)
	}
	return waiting
}

// nominatePod nominates a pod, or the pod that replaces it.
func (s *nominator) nominatePod(uid, key string) {
	if replacement := s.podReplacements.replacementOf(uid); s.pods.get(replacement) != nil {
		s.evictions.supersede(uid)
		uid = replacement
	}
	s.nominations.add(uid, key)
	s.podWriter.write(uid)
}

// needsCapacity reports whether a pod may be nominated: it is unbound, or its node is marked for
// deletion, and no replacement counts in its place. The pod may be nil.
func (s *nominator) needsCapacity(p *knownPod) bool {
	return p != nil && !s.podReplacements.isSuperseded(string(p.UID)) &&
		(p.Spec.NodeName == "" || s.builder.markedForDeletion(s.nodes.key(p.Spec.NodeName)))
}

// waits reports whether a decision would still look for capacity for the pod, which may be virtual,
// or for the pod that counts in its place.
func (s *nominator) waits(uid string) bool {
	if _, ok := s.builder.virtual[uid]; ok {
		return true
	}
	p, ok := s.builder.pod(s.podReplacements.effectivePod(uid))
	return ok && p.Refused == "" && (p.Node == "" || p.ReschedulableNow && s.builder.markedForDeletion(s.nodes.key(p.Node)))
}

// free is the capacity of a node that neither bound nor nominated pods use. It is negative where
// they use more than there is.
func (s *nominator) free(n cluster.Node) quantity.Amounts {
	free := n.Allocatable
	subtract := func(uid string) {
		p, _ := s.builder.pod(uid)
		free = free.Sub(p.Requests)
	}
	for uid := range s.pods.on(n.Name) {
		subtract(uid)
	}
	for uid := range s.nominations.to(n.Key) {
		subtract(uid)
	}
	return free
}

// holds reports whether the free capacity is enough for the requests.
func holds(free, requests quantity.Amounts) bool {
	for name, amount := range requests {
		if amount > 0 && amount > free[name] {
			return false
		}
	}
	return true
}

// endOvercommitted ends the nominations to an initialized node, by its name, once other pods use
// so much of it that not all nominated pods fit. The next decision nominates again those that do.
func (s *nominator) endOvercommitted(node string) (waiting []string) {
	key := s.nodes.key(node)
	n, _ := s.builder.node(key)
	if len(s.nominations.to(key)) == 0 || !n.Initialized {
		return nil
	}
	for _, left := range s.free(n) {
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
