// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"maps"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/quantity"
)

// podShapes keeps the pod shapes that classes have, and tells the Positions which
// extended resources they request.
type podShapes struct {
	interner  *constraint.Interner
	resources *quantity.Positions
	indexes   *nodeIndexes // which remember shapes

	byKey map[string]*PodShape
	// requesting are the shapes by the extended resources that they request.
	requesting map[string]map[*PodShape]bool
}

func newPodShapes(interner *constraint.Interner, resources *quantity.Positions, indexes *nodeIndexes) podShapes {
	return podShapes{
		interner: interner, resources: resources, indexes: indexes,
		byKey: map[string]*PodShape{}, requesting: map[string]map[*PodShape]bool{},
	}
}

// acquire returns the shape of a pod for one class more, which hands it back with release.
func (ss *podShapes) acquire(p *Pod, key string) *PodShape {
	s := ss.byKey[key]
	if s == nil {
		s = newPodShape(ss.interner, p, key)
		ss.register(s)
		s.updateVectors(ss.resources)
		ss.byKey[key] = s
	}
	s.users++
	return s
}

// release takes the shape from one of its classes, and removes it with the last one.
func (ss *podShapes) release(c *PodClass) {
	s := c.PodShape
	if s.users--; s.users > 0 {
		if len(c.Preferred) > 0 {
			ss.dropVariants(s) // other classes of the shape compile theirs again
		}
		return
	}
	delete(ss.byKey, s.key)
	ss.unregister(s)
	ss.dropMemos(s)
}

// register registers the extended resources that the shape requests.
func (ss *podShapes) register(s *PodShape) {
	for name := range s.extendedRequests() {
		ss.resources.AddRequest(name, 1)
		if ss.requesting[name] == nil {
			ss.requesting[name] = map[*PodShape]bool{}
		}
		ss.requesting[name][s] = true
	}
}

// unregister undoes register.
func (ss *podShapes) unregister(s *PodShape) {
	for name := range s.extendedRequests() {
		ss.resources.AddRequest(name, -1)
		if delete(ss.requesting[name], s); len(ss.requesting[name]) == 0 {
			delete(ss.requesting, name)
		}
	}
}

// dropMemos drops what the indexes remember about a shape and its variants.
func (ss *podShapes) dropMemos(s *PodShape) {
	ss.indexes.dropShape(s)
	ss.dropVariants(s)
}

func (ss *podShapes) dropVariants(s *PodShape) {
	for _, v := range s.variants {
		ss.indexes.dropShape(v)
	}
	s.variants = nil
}

// dropReplaced drops memos about pool catalogs that have been replaced or removed.
func (ss *podShapes) dropReplaced(pools *nodePools) {
	for _, s := range ss.byKey {
		s.dropReplaced(pools)
		for _, v := range s.variants {
			v.dropReplaced(pools)
		}
	}
}

func (s *PodShape) dropReplaced(pools *nodePools) {
	maps.DeleteFunc(s.compatible, func(c *PoolCatalog, _ *CompatibleOfferings) bool { return pools.replaced(c) })
	maps.DeleteFunc(s.matchingOwn, func(c *PoolCatalog, _ bitset.Set) bool { return pools.replaced(c) })
}

// updateAllVectors computes the vectors of all shapes again.
func (ss *podShapes) updateAllVectors() {
	for _, s := range ss.byKey {
		s.updateVectors(ss.resources)
	}
}

// updateVectorsRequesting computes the vectors of the shapes that request any of these resources
// again, and returns these shapes.
func (ss *podShapes) updateVectorsRequesting(names []string) map[*PodShape]bool {
	shapes := map[*PodShape]bool{}
	for _, name := range names {
		maps.Copy(shapes, ss.requesting[name])
	}
	for s := range shapes {
		ss.dropMemos(s)
		s.updateVectors(ss.resources)
	}
	return shapes
}
