// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"iter"
	"math"
	"slices"
)

// assign places pod groups on nodes where they fit, and assigns the other pods to cells where
// nodes are to be launched for them. Pods with required pod affinity wait until the pods that
// they join have a place; pods that still wait in the end drop a preference, if they have
// one. assign also returns the groups together with those that this made.
func (s *solver) assign(groups []*podGroup) ([]*allotment, []*podGroup) {
	var allotments []*allotment
	if s.learned.policy.smallestFirst {
		groups = slices.Clone(groups)
		slices.Reverse(groups)
	}
	if s.learned.policy.sharedDomains {
		groups = s.cells.byFewest(groups)
	}
	queue := newAssignQueue(groups)
	for {
		progress := false
		for g := queue.next(); g != nil; g = queue.next() {
			before := g.placed + g.allotted
			allotments = append(allotments, s.assignGroup(g)...)
			if g.placed+g.allotted > before {
				progress = true
				queue.wake(g)
			}
			if g.unassigned() > 0 && g.hasAffinity() {
				queue.await(&s.counters)
			}
		}
		if !progress || queue.waiting.Empty() {
			softer := s.relaxAll(queue.all)
			if len(softer) == 0 {
				return allotments, queue.all
			}
			queue.add(softer)
		}
		queue.startPass()
	}
}

// assignGroup finds places for one pod group.
func (s *solver) assignGroup(g *podGroup) []*allotment {
	if len(g.domainKeys) == 0 {
		s.nodes.fill(g)
		return g.allot(nil, g.unassigned())
	}
	if !g.held.notEmpty() && (g.lacksPodsOnNodes(&s.counters) || g.lacksPodsInDomains() != nil) {
		return nil
	}
	cells := s.cells.find(g)
	g.cells = cells
	for g.unassigned() > 0 {
		best := s.bestCell(g, cells)
		if best == nil {
			break
		}
		i := s.nodes.nodeIn(g, best)
		s.topology.addToDomainCounts(g, best, 1)
		if i >= 0 {
			s.nodes.nominate(g, i, 1)
		} else {
			best.wanted++
			g.allotted++
			if s.learned.policy.sharedDomains {
				s.cells.inUse.use(best)
			}
		}
	}
	var allotments []*allotment
	for _, c := range cells {
		g.allotted -= c.wanted
		s.cells.noteAssigned(g, c, c.wanted)
		allotments = append(allotments, g.allot(c, c.wanted)...)
	}
	return allotments
}

// lacksPodsOnNodes reports whether no pod is on any node that pods of the group must join there,
// nor can be in this round.
func (g *podGroup) lacksPodsOnNodes(cs *counters) bool {
	return slices.ContainsFunc(g.nodeRules.needs, func(d need) bool {
		return !d.soft && !d.selfSelecting && cs.all[d.counter].groups == 0 && cs.runs(d.counter) == 0
	})
}

// lacksPodsInDomains returns a count of pods that pods of the group must join in a zone or another
// domain, and of which none has a place yet; nil when there is no such count.
func (g *podGroup) lacksPodsInDomains() *domainCount {
	for i := range g.domainRules {
		if r := &g.domainRules[i]; r.kind == affinityRule && r.count.total() == 0 && !r.countsOwnPods {
			return r.count
		}
	}
	return nil
}

// addToDomainCounts adds n pods of the group to the counts of the cell's domains.
func (t *topology) addToDomainCounts(g *podGroup, c *cell, n int) {
	for i := range g.domainIncrements {
		inc := &g.domainIncrements[i]
		if v := c.Values[inc.keyIndex]; v >= 0 && c.isCountedBy(inc) {
			for j := range inc.counts {
				inc.counts[j].family.add(v, &inc.counts[j], n)
			}
		}
	}
}

// bestCell picks the cell for the next pod: of those that its rules allow the best; see cellFinder.better.
func (s *solver) bestCell(g *podGroup, cells []*cell) *cell {
	var best *cell
	mayBeFirst := g.noneToJoin(&s.counters)
	s.cells.usable = g.usableByRule(s.cells.usable, cells, mayBeFirst)
	for _, c := range cells {
		if !g.allows(c, s.cells.usable, mayBeFirst) {
			continue
		}
		hadNodes := len(c.nodes) > 0
		hasRoom := s.nodes.hasRoom(g, c)
		if hadNodes && len(c.nodes) == 0 {
			s.cells.usable = g.usableByRule(s.cells.usable, cells, mayBeFirst)
		}
		if !hasRoom {
			continue
		}
		if best == nil || s.cells.better(g, c, best) {
			best = c
		}
	}
	return best
}

// maxPodsBesideEarlier is how many pods of g may be planned for a node with pods of o, when pods
// of o count for a spread of g: kube-scheduler may bind the pods of g first, and they must then
// not keep those of o off the node. Pods that must join others on a node may be bound last, and
// unbindableClasses finds those that cannot. count counts the pods on the node, perhaps without those
// that can be bound last: see countWithoutLast.
func (g *podGroup) maxPodsBesideEarlier(o *podGroup, count func(int) int) int {
	if o == g || g.mustJoin() || !slices.ContainsFunc(g.domainRules, func(r domainRule) bool { return r.kind == spreadRule && !r.soft && r.count.of.includes(o.class) }) {
		return math.MaxInt32
	}
	return o.nodeRules.maxPodsInAnyBindOrder(&g.nodeRules, count)
}

// countWithoutLast returns a count of the pods on a node without those that can be bound after all of o,
// as it is planned: pods of other groups that are not spread and that no others on the node must join.
func countWithoutLast(o *podGroup, on iter.Seq2[*podGroup, int]) func(counter int) int {
	return func(counter int) int {
		count := 0
		for h, n := range on {
			if h.nodeRules.bumps(counter) && (h == o || h.hasSpread() || mustBeJoined(h, on)) {
				count += n
			}
		}
		return count
	}
}

// mustBeJoined reports whether pods on a node must join pods of the group there.
func mustBeJoined(g *podGroup, on iter.Seq2[*podGroup, int]) bool {
	for h := range on {
		if slices.ContainsFunc(h.nodeRules.needs, func(d need) bool { return g.nodeRules.bumps(d.counter) }) {
			return true
		}
	}
	return false
}

// spreadCount sums up what the group's spread constraints count in the cell.
func (g *podGroup) spreadCount(c *cell) int {
	n := 0
	for i := range g.domainRules {
		if r := &g.domainRules[i]; r.kind == spreadRule {
			n += r.count.count(c.Values[r.keyIndex])
		}
	}
	return n
}

// allowed reports whether the group's rules over domains allow one more pod in the cell.
func (g *podGroup) allowed(cs *counters, c *cell, cells []*cell) bool {
	mayBeFirst := g.noneToJoin(cs)
	return g.allows(c, g.usableByRule(nil, cells, mayBeFirst), mayBeFirst)
}

// usableByRule lists for each spread of the group the values that pods can use; see usableValues. It
// uses the memory of out.
func (g *podGroup) usableByRule(out [][]int, cells []*cell, mayBeFirst bool) [][]int {
	out = slices.Grow(out[:0], len(g.domainRules))[:len(g.domainRules)]
	for i := range g.domainRules {
		if out[i] = out[i][:0]; g.domainRules[i].kind == spreadRule {
			out[i] = g.usableValues(out[i], &g.domainRules[i], cells, mayBeFirst)
		}
	}
	return out
}

// allows is allowed for one of several cells: usable are the values that pods can use by rule, and
// mayBeFirst is set when there is no pod to join.
func (g *podGroup) allows(c *cell, usable [][]int, mayBeFirst bool) bool {
	for i := range g.domainRules {
		r := &g.domainRules[i]
		if !r.allows(c.Values[r.keyIndex], usable[i], mayBeFirst) {
			return false
		}
	}
	return true
}

// noneToJoin reports whether no pod is anywhere that pods of the group must join by some required
// term. kube-scheduler lets a pod be the first of its kind only then: a pod that runs where the label
// of one term is missing, and so counts for another term only, is to be joined by both
// (interpodaffinity, satisfyPodAffinity).
func (g *podGroup) noneToJoin(cs *counters) bool {
	return !slices.ContainsFunc(g.domainRules, func(r domainRule) bool { return r.kind == affinityRule && !r.soft && r.count.total() > 0 }) &&
		!slices.ContainsFunc(g.nodeRules.needs, func(d need) bool { return !d.soft && cs.total(d.counter) > 0 })
}
