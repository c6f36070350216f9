// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"cmp"
	"slices"
)

// maxRetriedPods bounds how many pods one call of retryUnplaced places: each costs a walk over
// the launches.
const maxRetriedPods = 256

// retrier places pods that were left out although some node can hold them: pods that
// prevented it during assignment may have been left out since, and pods that they must join may
// have a place now. It places one pod at a time, counts only pods that have a place, as
// kube-scheduler will, and opens no domain that some spread does not count.
type retrier struct {
	solver *solver
	// podsLeft is how many more pods it may place.
	podsLeft int
	// steps is how many steps are left. A trial of a pod group takes a step, and one for each
	// NodePool.
	steps int
}

// retryUnplaced tries again to place the pods that were left out; then also in domains that may be
// empty (see topology.recount), on larger launches, and at last on nodes that may be in several domains.
func (s *solver) retryUnplaced(virtual bool) {
	r := retrier{solver: s, podsLeft: maxRetriedPods, steps: s.searches.budgets[Retry]}
	left := r.leftOut(virtual)
	if len(left) == 0 {
		return
	}
	for _, g := range left {
		g.allotted = 0 // their allotments failed
	}
	s.topology.mustNotOpenDomains, s.cells.ignoreLearned = true, true
	defer func() {
		s.cells.ignoreLearned = false
		s.topology.mustNotOpenDomains, s.topology.mayOpenEmpty = false, false
		s.topology.recount(s.podGroups)
	}()
	s.topology.recount(s.podGroups)
	changed := slices.DeleteFunc(slices.Clone(left), func(g *podGroup) bool { return !r.mayFindPlace(g) })
	r.retryGroups(changed, s.placeOnLaunches)
	s.topology.mayOpenEmpty = true
	s.topology.recount(s.podGroups)
	r.retryGroups(changed, s.placeOnLaunches)
	s.topology.recount(s.podGroups)
	r.podsLeft = maxRetriedPods
	im := newImprover(s)
	im.maxSteps = s.searches.budgets[Enlargement]
	s.cells.mayBecome = im.mayBecome()
	enlarged := r.retryGroups(left, im.enlarge)
	s.cells.mayBecome = nil
	if enlarged {
		r.retryGroups(left, s.placeOnLaunches) // they may join those pods now
	}
	r.placeOnReturned(left, im)
	if im.outOfSteps() {
		s.searches.cut(Enlargement, countLeftOut(left))
	}
	s.topology.recount(s.podGroups)
	if r.placeInOpenDomains(left) { // others may join those pods now, where their domain is known
		s.topology.recount(s.podGroups)
		joining := slices.DeleteFunc(slices.Clone(left), func(g *podGroup) bool { return g.countsOpen() || !g.hasAffinity() && !g.follows() })
		r.retryGroups(joining, s.placeOnLaunches)
	}
	if r.podsLeft <= 0 || r.steps <= 0 {
		s.searches.cut(Retry, countLeftOut(left))
	}
}

// placeOnReturned launches nodes for pods of the groups from limits and quota that launches were planned
// with and do not need in the end.
func (r *retrier) placeOnReturned(groups []*podGroup, im *improver) {
	if !slices.ContainsFunc(groups, func(g *podGroup) bool { return g.unassigned() > 0 }) {
		return
	}
	undo := im.returnUnneeded()
	if undo == nil {
		return
	}
	r.solver.topology.recount(r.solver.podGroups)
	if !r.retryGroups(groups, r.solver.placeOnLaunches) {
		undo()
	}
}

// leftOut lists the pod groups with pods that were left out, by priority.
func (r *retrier) leftOut(virtual bool) []*podGroup {
	var out []*podGroup
	for _, g := range r.solver.podGroups {
		if g.placed < len(g.pods) && g.class.Virtual == virtual && !g.excluded() {
			out = append(out, g)
		}
	}
	slices.SortStableFunc(out, func(x, y *podGroup) int { return cmp.Compare(y.class.Priority, x.class.Priority) })
	return out
}

// mayFindPlace reports whether something has changed for the group since it was tried.
func (r *retrier) mayFindPlace(g *podGroup) bool {
	return r.solver.launches.someDropped || r.solver.learned.unplaceable[g.class] || len(g.domainKeys) > 0 || g.follows()
}

// retryGroups places pods of the groups on nodes, or by onLaunches, as long as some are placed. It
// reports false when it placed none.
func (r *retrier) retryGroups(groups []*podGroup, onLaunches func([]*allotment)) bool {
	s, before := r.solver, r.podsLeft
	for again := true; again && r.podsLeft > 0; {
		again = false
		for _, g := range groups {
			if r.steps <= 0 {
				return r.podsLeft < before
			}
			if g.unassigned() > 0 {
				r.steps -= 1 + len(s.pools.all)
			}
			launched := s.limits.reservations
			placed := r.retryGroup(g, onLaunches)
			r.podsLeft -= placed
			again = again || placed > 0
			if placed > 0 && s.limits.reservations != launched {
				s.topology.recount(s.podGroups)
			}
		}
	}
	return r.podsLeft < before
}

// retryGroup places pods of the group, one by one where each depends on those before, and returns
// how many it placed.
func (r *retrier) retryGroup(g *podGroup, onLaunches func([]*allotment)) int {
	s, before := r.solver, g.placed
	if g.unassigned() == 0 {
		return 0
	}
	if len(g.domainKeys) == 0 {
		s.nodes.fill(g)
		onLaunches(g.allot(nil, g.unassigned()))
		g.allotted = 0
		return g.placed - before
	}
	s.placeOneByOne(g, r.podsLeft, onLaunches)
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
