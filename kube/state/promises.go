// SPDX-License-Identifier: Apache-2.0

package state

import (
	"maps"
	"slices"
	"time"
)

// promises records which pods were promised capacity on which node. Each change increments the
// revision.
type promises struct {
	revision *revision
	nodeOf   map[string]string          // pod UID → node key
	podsOn   map[string]map[string]bool // node key → pod UIDs
	// until is when the promises on a node end, by the node's key. It may outlive them.
	until map[string]time.Time
}

func newPromises(r *revision) *promises {
	return &promises{revision: r, nodeOf: map[string]string{}, podsOn: map[string]map[string]bool{}, until: map[string]time.Time{}}
}

// of is the key of the node where the pod was promised capacity; false when it was not.
func (s *promises) of(uid string) (key string, ok bool) {
	key, ok = s.nodeOf[uid]
	return key, ok
}

// on is the UIDs of the pods that were promised capacity on a node.
func (s *promises) on(key string) map[string]bool { return s.podsOn[key] }

// keys lists the keys of the nodes on which pods were promised capacity.
func (s *promises) keys() []string { return slices.Collect(maps.Keys(s.podsOn)) }

// without returns those of the pods that were promised no capacity.
func (s *promises) without(uids []string) []string {
	var out []string
	for _, uid := range uids {
		if _, ok := s.nodeOf[uid]; !ok {
			out = append(out, uid)
		}
	}
	return out
}

// make promises a pod capacity on a node, and ends an earlier promise to the pod.
func (s *promises) make(uid, key string) {
	s.end(uid)
	s.revision.increment()
	s.nodeOf[uid] = key
	set(s.podsOn, key, uid)
}

// end ends the promise to a pod, if there is one.
func (s *promises) end(uid string) {
	if key, ok := s.nodeOf[uid]; ok {
		s.revision.increment()
		delete(s.nodeOf, uid)
		unset(s.podsOn, key, uid)
	}
}

// endAll ends every promise on a node, and returns the pods that they were made to.
func (s *promises) endAll(key string) []string {
	s.revision.increment()
	uids := slices.Collect(maps.Keys(s.podsOn[key]))
	for _, uid := range uids {
		delete(s.nodeOf, uid)
	}
	delete(s.podsOn, key)
	delete(s.until, key)
	return uids
}

// extend makes the promises on a node hold until then.
func (s *promises) extend(key string, until time.Time) {
	s.revision.increment()
	s.until[key] = until
}

// endsOn is when the promises on a node end; zero when no capacity was promised there lately.
func (s *promises) endsOn(key string) time.Time { return s.until[key] }

// forgetEnd forgets until when promises on a node hold.
func (s *promises) forgetEnd(key string) { delete(s.until, key) }

// recallEnds copies from an old store until when promises hold.
func (s *promises) recallEnds(old *promises) { maps.Copy(s.until, old.until) }

// keepEnds forgets until when promises hold on nodes that do not exist.
func (s *promises) keepEnds(exists func(key string) bool) {
	maps.DeleteFunc(s.until, func(key string, _ time.Time) bool { return !exists(key) })
}
