// SPDX-License-Identifier: Apache-2.0

package state

import (
	"maps"
	"slices"
	"time"
)

// nominations records to which node each pod is nominated. Each change increments the revision.
type nominations struct {
	revision *revision
	nodeOf   map[string]string          // pod UID → node key
	podsOn   map[string]map[string]bool // node key → pod UIDs
	// ends is when the nominations to a node lapse, by the node's key. It may outlive them.
	ends map[string]time.Time
}

func newNominations(r *revision) *nominations {
	return &nominations{revision: r, nodeOf: map[string]string{}, podsOn: map[string]map[string]bool{}, ends: map[string]time.Time{}}
}

// of is the key of the node to which the pod is nominated; false when it is nominated to none.
func (s *nominations) of(uid string) (key string, ok bool) {
	key, ok = s.nodeOf[uid]
	return key, ok
}

// to is the UIDs of the pods that are nominated to a node.
func (s *nominations) to(key string) map[string]bool { return s.podsOn[key] }

// nodeKeys lists the keys of the nodes to which pods are nominated.
func (s *nominations) nodeKeys() []string { return slices.Collect(maps.Keys(s.podsOn)) }

// notNominated returns those of the pods that are nominated to no node.
func (s *nominations) notNominated(uids []string) []string {
	var out []string
	for _, uid := range uids {
		if _, ok := s.nodeOf[uid]; !ok {
			out = append(out, uid)
		}
	}
	return out
}

// add nominates a pod to a node, and to no other.
func (s *nominations) add(uid, key string) {
	s.remove(uid)
	s.revision.increment()
	s.nodeOf[uid] = key
	set(s.podsOn, key, uid)
}

// remove ends the nomination of a pod, if there is one.
func (s *nominations) remove(uid string) {
	if key, ok := s.nodeOf[uid]; ok {
		s.revision.increment()
		delete(s.nodeOf, uid)
		unset(s.podsOn, key, uid)
	}
}

// removeAll ends every nomination to a node, and returns the pods that were nominated.
func (s *nominations) removeAll(key string) []string {
	s.revision.increment()
	uids := slices.Collect(maps.Keys(s.podsOn[key]))
	for _, uid := range uids {
		delete(s.nodeOf, uid)
	}
	delete(s.podsOn, key)
	delete(s.ends, key)
	return uids
}

// extend makes the nominations to a node last until then.
func (s *nominations) extend(key string, until time.Time) {
	s.revision.increment()
	s.ends[key] = until
}

// until is when the nominations to a node lapse; zero when no pod was nominated to it lately.
func (s *nominations) until(key string) time.Time { return s.ends[key] }

// forgetNode forgets until when nominations to a node last.
func (s *nominations) forgetNode(key string) { delete(s.ends, key) }

// copyEnds copies from an old store until when nominations last.
func (s *nominations) copyEnds(old *nominations) { maps.Copy(s.ends, old.ends) }

// dropEndsOfDeleted forgets until when nominations to nodes that do not exist last.
func (s *nominations) dropEndsOfDeleted(exists func(key string) bool) {
	maps.DeleteFunc(s.ends, func(key string, _ time.Time) bool { return !exists(key) })
}
