// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"cmp"
	"slices"
)

// maxRetriedPods bounds how many pods one call of retryUnplaced places: each costs a walk over
// the launches.
const maxRetriedPods = 256

// retryUnplaced places pods that were left out although some node can hold them: pods that
// prevented it during assignment may have been left out since, and pods that they must join may
// have a place now. It places one pod at a time, counts only pods that have a place, as
// kube-scheduler will, and opens no domain that some spread does not count; at last, domains that
// may be empty (see topology.recount).
func (s *solver) retryUnplaced(virtual bool) {
	left := s.retryable(virtual)
	if len(left) == 0 {
		return
	}
	for _, g := range left {
		g.allotted = 0 // their allotments failed
	}
	s.topology.mustNotOpenDomains = true
	defer func() {
		s.topology.mustNotOpenDomains, s.topology.mayOpenEmpty = false, false
		s.topology.recount(s.podGroups)
	}()
	s.topology.recount(s.podGroups)
	retriesLeft := s.retryGroups(left, maxRetriedPods)
	s.topology.mayOpenEmpty = true
	s.topology.recount(s.podGroups)
	s.retryGroups(left, retriesLeft)
}

// retryGroups places up to n pods of the groups and returns how many it did not.
func (s *solver) retryGroups(groups []*podGroup, n int) int {
	for again := true; again && n > 0; {
		again = false
		for _, g := range groups {
			launched := len(s.launches.all)
			placed := s.retryGroup(g, n)
			n -= placed
			again = again || placed > 0
			if len(s.launches.all) > launched {
				s.topology.recount(s.podGroups)
			}
		}
	}
	return n
}

// retryable lists the pod groups with pods that were left out, without those for which nothing
// has changed.
func (s *solver) retryable(virtual bool) []*podGroup {
	var out []*podGroup
	for _, g := range s.podGroups {
		if g.placed == len(g.pods) || g.class.Virtual != virtual || g.class.Refused != "" {
			continue
		}
		if s.launches.someDropped || s.learned.unplaceable[g.class] || len(g.domainKeys) > 0 || g.follows() {
			out = append(out, g)
		}
	}
	slices.SortStableFunc(out, func(x, y *podGroup) int { return cmp.Compare(y.class.Priority, x.class.Priority) })
	return out
}

// retryGroup places pods of the group, up to n where each depends on those before, and returns
// how many it placed.
func (s *solver) retryGroup(g *podGroup, n int) int {
	before := g.placed
	if g.unassigned() == 0 {
		return 0
	}
	if len(g.domainKeys) == 0 {
		s.nodes.fill(g)
		s.placeOnLaunches(g.allot(nil, g.unassigned()))
		g.allotted = 0
		return g.placed - before
	}
	s.placeOneByOne(g, n, s.placeOnLaunches)
	return g.placed - before
}

// placeOneByOne places up to n pods of a group with rules over domains: on nodes, or by onLaunches.
func (s *solver) placeOneByOne(g *podGroup, n int, onLaunches func([]*allotment)) {
	cells, before := s.cells.find(g), g.placed
	for g.unassigned() > 0 && g.placed-before < n {
		best := s.bestCell(g, cells)
		if best == nil {
			break
		}
		if !s.placeOneIn(g, best, onLaunches) {
			best.maxPods, best.wanted, best.nodes = 0, 0, nil
		}
	}
}

// placeOneIn places one pod in a cell: on a node, or by onLaunches.
func (s *solver) placeOneIn(g *podGroup, c *cell, onLaunches func([]*allotment)) bool {
	if i := s.nodes.nodeIn(g, c); i >= 0 {
		s.topology.addToDomainCounts(g, c, 1)
		s.nodes.nominate(g, i, 1)
		return true
	}
	before := g.placed
	onLaunches(g.allot(c, 1))
	g.allotted = 0
	if g.placed == before {
		return false
	}
	s.topology.addToDomainCounts(g, c, 1)
	return true
}
