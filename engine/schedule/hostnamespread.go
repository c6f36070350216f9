// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"math"
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
)

// hostnameSpread is a hard spread constraint of a pod group over the hostname. While nodes can be
// launched, the emptiest node counts as having none of the pods, and each node may have maxSkew of
// them. When no node can be launched, the emptiest node is one that exists or is planned, and each
// may have maxSkew more than that one.
type hostnameSpread struct {
	counter int
	spread  *cluster.TopologySpread
}

// nodeSpreader fills nodes with pods that a spread over the hostname has left out. steps are left of its
// budget: a step looks at a node, a launch or a pod group.
type nodeSpreader struct {
	solver   *solver
	improver *improver // makes launches larger
	steps    int
	counters map[int]bool // of the spreads of all pod groups over the hostname
}

func newNodeSpreader(s *solver) nodeSpreader {
	ns := nodeSpreader{solver: s, improver: newImprover(s), steps: s.searches.budgets[HostnameSpread], counters: map[int]bool{}}
	ns.improver.maxSteps = s.searches.budgets[Enlargement]
	for _, g := range s.podGroups {
		for _, h := range g.nodeRules.spreads {
			ns.counters[h.counter] = true
		}
	}
	return ns
}

// spreadOverNodes fills nodes with virtual pods, or with others, that a spread over the hostname, of
// their own or of pods beside them, has left out. Nodes that the spread looks at may not be launched any
// more once it placed some. A what-if leaves such pods out: that it launches no node does not mean that
// none could be.
func (s *solver) spreadOverNodes(virtual bool) {
	if s.snapshot.InWhatIf() || s.limits.overMaxPrice() {
		return
	}
	mayOpenEmpty, withMinValues := s.topology.mayOpenEmpty, slices.ContainsFunc(s.launches.all, func(l *launch) bool { return l.pool.hasMinValues() })
	s.topology.letOpenEmpty(false, s.podGroups)
	s.topology.mustNotOpenDomains, s.cells.ignoreLearned = true, true
	defer func() {
		s.topology.mustNotOpenDomains, s.cells.ignoreLearned = false, false
		s.topology.letOpenEmpty(mayOpenEmpty, s.podGroups)
	}()
	ns := newNodeSpreader(s)
	for _, g := range s.podGroups {
		if g.class.Virtual != virtual || !ns.limits(g) || g.placed == len(g.pods) || g.excluded() || g.countsOpen() {
			continue
		}
		g.allotted = 0 // their allotments failed
		if mayOpenEmpty && withMinValues && s.topology.mayFillDomains(g, s.podGroups) {
			continue // the launches may need the domains that are empty
		}
		if len(g.nodeRules.spreads) > 0 {
			ns.fill(g)
			ns.fillBesideOutside(g)
		}
		ns.fillLarger(g)
	}
}

// limits reports whether a spread over the hostname limits how many pods of the group a node may have.
func (ns *nodeSpreader) limits(g *podGroup) bool {
	return len(g.nodeRules.spreads) > 0 || slices.ContainsFunc(g.nodeRules.increments, func(counter int) bool { return ns.counters[counter] })
}

// fill fills nodes with pods of the group, level by level.
func (ns *nodeSpreader) fill(g *podGroup) {
	for g.unassigned() > 0 && ns.raiseMaxCounts(g) && ns.place(g, ns.solver.fillLaunches) {
	}
}

// fillLarger also fills launches that become larger. Spreads of others that count pods of the group take no
// further node for granted, either. Pods that ask for no such spread themselves join launches only where
// those others may be bound after them.
func (ns *nodeSpreader) fillLarger(g *podGroup) {
	s, before := ns.solver, g.placed
	if ns.steps -= len(s.podGroups); g.unassigned() == 0 || ns.steps < 0 {
		return
	}
	onLaunches := func(allotments []*allotment) {
		if len(g.nodeRules.spreads) > 0 {
			s.fillLaunches(allotments)
		}
		ns.improver.enlarge(allotments)
	}
	others := map[*podGroup][]counterLimit{}
	ns.raiseOthers(g, others)
	for g.unassigned() > 0 && (ns.place(g, onLaunches) || ns.raiseMaxCounts(g) || ns.raiseOthers(g, others)) {
	}
	for o, maxCounts := range others {
		if g.placed > before {
			ns.closeOfferings(o)
		} else {
			o.nodeRules.maxCounts = maxCounts
		}
	}
	if ns.improver.outOfSteps() {
		s.searches.cut(Enlargement, g.unassigned())
	}
}

// raiseOthers raises the limits of other groups with pods that have a place, whose spreads over the hostname
// count pods of the group. It adds these groups to raised, with the limits that they had at first, and
// reports false when it raised none.
func (ns *nodeSpreader) raiseOthers(g *podGroup, raised map[*podGroup][]counterLimit) bool {
	some := false
	for _, o := range ns.solver.podGroups {
		if o == g || o.placed == 0 || !slices.ContainsFunc(o.nodeRules.spreads, func(h hostnameSpread) bool { return g.nodeRules.bumps(h.counter) }) {
			continue
		}
		before := slices.Clone(o.nodeRules.maxCounts)
		if !ns.raiseMaxCounts(o) {
			continue
		}
		some = true
		if _, again := raised[o]; !again {
			raised[o] = before
		}
	}
	return some
}

// place places pods of the group on nodes, or by onLaunches. It reports false when it placed none.
func (ns *nodeSpreader) place(g *podGroup, onLaunches func([]*allotment)) bool {
	s, before := ns.solver, g.placed
	if ns.steps -= len(s.snapshot.Nodes) + len(s.launches.all); ns.steps < 0 {
		s.searches.cut(HostnameSpread, g.unassigned())
		return false
	}
	if len(g.domainKeys) > 0 {
		s.placeOneByOne(g, maxRetriedPods, onLaunches)
	} else {
		s.nodes.fill(g)
		onLaunches(g.allot(nil, g.unassigned()))
	}
	if g.allotted = 0; g.placed == before {
		return false
	}
	ns.closeOfferings(g)
	return true
}

// fillBesideOutside is fill while launches that the group's spreads need not look at keep to such
// offerings, where that places some pods.
func (ns *nodeSpreader) fillBesideOutside(g *podGroup) {
	if g.unassigned() == 0 {
		return
	}
	before, maxCounts := g.placed, slices.Clone(g.nodeRules.maxCounts)
	narrowed := ns.keepOutside(g)
	if len(narrowed) == 0 {
		return
	}
	ns.fill(g)
	if g.placed > before {
		return
	}
	g.nodeRules.maxCounts = maxCounts
	for l, requirements := range narrowed {
		l.requirements = requirements
	}
}

// keepOutside drops, from launches that are planned outside what a spread of the group over the hostname
// looks at, the offerings inside: as one of those such a launch could be the emptiest node. It returns
// these launches with the requirements that they had. Launches with minValues keep their offerings.
func (ns *nodeSpreader) keepOutside(g *podGroup) map[*launch]*nodeRequirements {
	s := ns.solver
	narrowed := map[*launch]*nodeRequirements{}
	for _, h := range g.nodeRules.spreads {
		looksAt := h.looksAt(g)
		for _, l := range s.launches.all {
			counted := s.topology.countedOfferings(&looksAt, l.pool)
			if l.pool.hasMinValues() || counted.Has(l.row) || !looksAt.filter.admits(l) || !s.offerings.mayBecome(l).Intersects(counted) {
				continue
			}
			if narrowed[l] == nil {
				narrowed[l] = l.requirements
			}
			l.requirements = s.requirements.intern(l.requirements.labelRequirements, l.requirements.rows.Minus(counted))
		}
	}
	return narrowed
}

// closeOfferings closes the offerings that a spread of the group over the hostname looks at.
func (ns *nodeSpreader) closeOfferings(g *podGroup) {
	s := ns.solver
	for _, h := range g.nodeRules.spreads {
		looksAt := h.looksAt(g)
		for _, pool := range s.pools.all {
			pool.closed.Merge(s.topology.countedOfferings(&looksAt, pool))
			pool.base = s.requirements.intern(pool.base.labelRequirements, pool.Offerings.Minus(pool.closed))
		}
	}
}

// mayFillDomains reports whether the group's pods without a place could be too many, for a spread of
// theirs or of pods that have a place, beside a domain that may be empty without them.
func (t *topology) mayFillDomains(g *podGroup, groups []*podGroup) bool {
	return slices.ContainsFunc(groups, func(o *podGroup) bool {
		return slices.ContainsFunc(o.domainRules, func(r domainRule) bool {
			return r.isHardSpread() && r.count.mayBeEmpty && (o == g || o.placed > 0 && r.count.of.includes(g.class)) &&
				r.count.most()+g.unassigned() > r.maxSkew
		})
	})
}

// raiseMaxCounts lets each node have maxSkew pods more than the emptiest node has. It reports false
// when that is no more than before.
func (ns *nodeSpreader) raiseMaxCounts(g *podGroup) bool {
	raised := false
	for i := range g.nodeRules.maxCounts {
		limit := &g.nodeRules.maxCounts[i]
		most := math.MaxInt32
		for _, spread := range g.nodeRules.spreads {
			if spread.counter == limit.counter {
				most = min(most, ns.solver.leastOnNodes(g, spread)+spread.spread.MaxSkew)
			}
		}
		if most != math.MaxInt32 && most > limit.max {
			limit.max, raised = most, true
		}
	}
	return raised
}

// looksAt says at which nodes the spread of the group looks.
func (h hostnameSpread) looksAt(g *podGroup) domainCount {
	keys, names := hardSpreads(g.class)
	return domainCount{requiredKeys: keys, filter: spreadKey(g.class, h.spread, names).filter}
}

// leastOnNodes is the count of the emptiest node that the constraint looks at; zero while there are
// fewer nodes than minDomains.
func (s *solver) leastOnNodes(g *podGroup, h hostnameSpread) int {
	looksAt := h.looksAt(g)
	nodes, least := 0, math.MaxInt32
	look := func(n int) { nodes, least = nodes+1, min(least, n) }
	for i, node := range s.snapshot.Nodes {
		if looksAt.passes(node) {
			look(s.counters.countOn(h.counter, i))
		}
	}
	for _, node := range s.snapshot.NodesTakingNoPods {
		if looksAt.passes(node) {
			look(s.counters.all[h.counter].of.countOn(node))
		}
	}
	for _, l := range s.launches.all {
		if !looksAt.filter.admits(l) {
			continue
		}
		counted := s.topology.countedOfferings(&looksAt, l.pool)
		if counted.Equal(l.pool.Offerings) {
			look(l.counts.at(h.counter))
			continue
		}
		switch may := s.offerings.mayBecome(l); {
		case may.SubsetOf(counted):
			look(l.counts.at(h.counter))
		case may.Intersects(counted):
			least = min(least, l.counts.at(h.counter))
		}
	}
	if nodes == 0 || nodes < h.spread.MinDomains {
		return 0
	}
	return least
}
