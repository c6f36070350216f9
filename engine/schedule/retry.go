// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"cmp"
	"slices"
)

// mostSecond bounds how many pods one call of retryUnplaced places: each costs a walk over
// the launches.
const mostSecond = 256

// retryUnplaced places pods that were left out although some node can hold them: pods that
// prevented it during assignment may have been left out since, and pods that they must join may
// have a place now. It places one pod at a time, counts only pods that have a place, as
// kube-scheduler will, and opens no domain that some spread does not count.
func (s *solver) retryUnplaced(virtual bool) {
	left := s.overlooked(virtual)
	if len(left) == 0 {
		return
	}
	s.topology.openNoDomain = true
	defer func() { s.topology.openNoDomain = false }()
	for _, t := range s.topology.order {
		if len(t.keys) > 0 {
			t.opened = s.topology.opened(t)
		}
	}
	budget := mostSecond
	for again := true; again && budget > 0; {
		again = false
		for _, g := range left {
			n := s.oneByOne(g, budget)
			budget -= n
			again = again || n > 0
		}
	}
}

// overlooked lists the pod groups with pods that were left out, without those for which
// nothing has changed.
func (s *solver) overlooked(virtual bool) []*podGroup {
	var out []*podGroup
	for _, g := range s.podGroups {
		if g.placed == len(g.pods) || g.class.Virtual != virtual || g.class.Refused != "" {
			continue
		}
		if s.launches.returned || s.learned.unplaceable[g.class] || len(g.domainKeys) > 0 || len(g.nodeRules.needs) > 0 {
			g.allotted = 0 // for allotments that failed
			out = append(out, g)
		}
	}
	slices.SortStableFunc(out, func(x, y *podGroup) int { return cmp.Compare(y.class.Priority, x.class.Priority) })
	return out
}

// oneByOne places pods of the group, up to n where each depends on those before, and returns
// how many it placed.
func (s *solver) oneByOne(g *podGroup, n int) int {
	before := g.placed
	if g.left() == 0 {
		return 0
	}
	if len(g.domainKeys) == 0 {
		s.nodes.fill(g)
		s.placeOnLaunches(g.allot(nil, g.left()))
		g.allotted = 0
		return g.placed - before
	}
	cells := s.cells.find(g)
	for g.left() > 0 && g.placed-before < n {
		best := s.bestCell(g, cells)
		if best == nil {
			break
		}
		if !s.one(g, best) {
			best.cap, best.want, best.hosts = 0, 0, nil
		}
	}
	return g.placed - before
}

// one places one pod in a cell: on a node, on a planned launch, or on a new one.
func (s *solver) one(g *podGroup, c *cell) bool {
	if i := s.nodes.hostIn(g, c); i >= 0 {
		g.count(c, 1)
		s.nodes.nominate(g, i, 1)
		return true
	}
	before := g.placed
	s.placeOnLaunches(g.allot(c, 1))
	g.allotted = 0
	if g.placed == before {
		return false
	}
	g.count(c, 1)
	return true
}
