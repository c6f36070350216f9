// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"maps"
	"math"
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/schedule/covering"
)

// shapeGroup is the allotments with the same pod shape and cell. They ask the same of a node
// and differ only in their rules about other pods.
type shapeGroup struct {
	at         int // index in launcher.shapeGroups
	shape      *cluster.PodShape
	cell       *cell
	allotments []*allotment // the one with the most pods to place first
	// independent are those of them that need no pods beside them, or may be the first of their kind;
	// ready are the others that may join pods which fill has put on its node.
	independent, ready []*allotment
	unrepelled         *unrepelled                    // independent as a set, where anti-affinity keeps many apart
	limited            []*allotment                   // those of which the number per node is limited
	compatible         []*cluster.CompatibleOfferings // by kind of pool: see alikePools
	left               int
	mostOnNode         int  // sum of leftForNode: so many of the pods a node holds if it has the capacity
	packed             int  // while counting the pods on one node
	somePlaced         bool // some of allotments have no pods left
	hosted             bool // some pool has an offering for them
	lastJoined         lastJoined
	// inFilling is set while fill has pods of this shape group on its node.
	inFilling bool
}

// portion is n pods of one allotment on one node.
type portion struct {
	allotment *allotment
	n         int
}

// launcher launches nodes from pools of equal weight for the pods of one priority.
type launcher struct {
	limits        *limits
	counters      *counters
	topology      *topology
	requirements  *requirementSets
	minValues     *minValuesChecker
	compatibility *compatibility
	launches      *launchList

	pools       alikePools // to the pods of all shape groups
	shapeGroups []*shapeGroup
	shapesLeft  shapesLeft // of shapeGroups
	// followers are the allotments that must join pods which the counter counts.
	followers  map[int][]*allotment
	candidates []*candidate
	// prices are in USD/h. That of a node is what one is worth to pods limited per node.
	prices covering.Prices
	demand *nodeDemand
	// someTooSmall is set when offerings are too small for pods of classes of which more are owed.
	someTooSmall bool
	// stopEarly is set when the attempt is of no use once the rest is certain to cost more
	// than is left of its maximum price.
	stopEarly bool
	// launchCalls counts the calls of launchCopies. dividedAt and gatheredAt are what it was when
	// divide and gatherCandidates were last called.
	launchCalls, dividedAt, gatheredAt int
	filling                            *filling
}

// launchScratch is what launchers use one after another. It is large where there are many counters.
type launchScratch struct {
	filling   filling
	demand    nodeDemand
	promising []*candidate
}

// reset makes it ready for a launcher and so many counters.
func (ls *launchScratch) reset(counters int) {
	f, d := &ls.filling, &ls.demand
	f.reset(quantity.Vector{})
	if f.mounts == nil {
		f.mounts = map[cluster.Mount]bool{}
	}
	d.clearLimited()
	if more := counters - len(f.counts); more > 0 {
		f.counts, d.limited = append(f.counts, make([]int, more)...), append(d.limited, make([]limitedPods, more)...)
	}
}

// launchNodes launches nodes for as many pods of the allotments as the pools can, which are of
// equal weight. Each step launches the candidate with the lowest price per worth, and more of
// the same while it stays about as good. last is set for the pools that are tried last: later
// ones might have cheaper offerings for the pods that are left.
func (s *solver) launchNodes(pools []*poolState, last bool, allotments []*allotment) {
	stopEarly := s.preferences.options.placeAllOrStop && last && !s.learned.policy.fewestNodes
	if s.limits.overMaxPrice() || !slices.ContainsFunc(allotments, func(a *allotment) bool {
		// Pods that must join others find none on an empty node; what they cost may still end the attempt.
		return a.left() > 0 && (stopEarly || a.group.mayBeFirst())
	}) {
		return
	}
	lr := newLauncher(s, pools, allotments)
	lr.stopEarly = stopEarly
	if len(lr.shapeGroups) == 0 {
		return
	}
	lr.gatherCandidates()
	for !lr.limits.overMaxPrice() {
		best := lr.best()
		if best == nil && !lr.mayHaveLostValues() {
			return
		}
		if best == nil || !lr.launchRepeatedly(best) {
			// Limits or quota ran out for it: offerings that it dominated may still be
			// available.
			lr.gatherCandidates()
		}
	}
}

// newLauncher makes a launcher for the pods of the allotments that are left to place.
func newLauncher(s *solver, pools []*poolState, allotments []*allotment) *launcher {
	lr := &launcher{limits: &s.limits, counters: &s.counters, topology: &s.topology, requirements: &s.requirements, minValues: &s.minValues,
		compatibility: &s.compatibility, launches: &s.launches, followers: map[int][]*allotment{},
		someTooSmall: len(s.preferences.options.tooSmall) > 0}
	lr.findAlikePools(pools, allotments)
	lr.groupByShape(allotments)
	for _, sg := range lr.shapeGroups {
		sg.unrepelled = newUnrepelled(sg.independent, s.counters.antiAffinityTerms.hostnameSelectors)
	}
	lr.shapesLeft = newShapesLeft(lr.shapeGroups)
	s.launches.scratch.reset(len(s.counters.all))
	lr.filling, lr.demand = &s.launches.scratch.filling, &s.launches.scratch.demand
	lr.demand.begin(lr.shapeGroups)
	return lr
}

// tolerance is the factor by which a node's price per worth may exceed that of the first one
// for the same offering to be launched again without a comparison with others.
const tolerance = 1.005

// launchRepeatedly launches the candidate while it stays about as good. It reports false when
// limits or quota stopped it.
func (lr *launcher) launchRepeatedly(cand *candidate) bool {
	cost := cand.price / cand.worth
	for {
		if !lr.launchCopies(cand) {
			return false
		}
		if lr.demand.isStale(&lr.shapesLeft, lr.launchCalls-lr.dividedAt, lr.launches.policy) {
			lr.divideAgain()
		}
		lr.fill(cand)
		if len(cand.content) == 0 || cand.price/cand.worth > cost*tolerance {
			return true
		}
	}
}

// findAlikePools finds which pools are alike to all pods left to place.
func (lr *launcher) findAlikePools(pools []*poolState, allotments []*allotment) {
	keys := keySet{}
	for _, a := range allotments {
		if len(pools) > 1 && a.left() > 0 {
			own, _ := a.group.distinguishingKeys()
			keys.add(own)
		}
	}
	lr.pools.find(pools, lr.topology, slices.Collect(maps.Keys(keys)))
}

// groupByShape sorts the pods left to place into shape groups, the largest pods first.
func (lr *launcher) groupByShape(allotments []*allotment) {
	type key struct {
		shape *cluster.PodShape
		cell  string
		owed  bool
	}
	byKey := map[key]*shapeGroup{}
	for _, a := range allotments {
		if a.left() == 0 {
			continue
		}
		at := key{shape: a.group.shape, owed: lr.someTooSmall && a.group.class.Owed > 0}
		if a.cell != nil {
			at.cell = a.cell.key
		}
		sg := byKey[at]
		if sg == nil {
			sg = &shapeGroup{shape: a.group.shape, cell: a.cell, compatible: make([]*cluster.CompatibleOfferings, len(lr.pools.firsts))}
			for kind, i := range lr.pools.firsts {
				sg.compatible[kind] = lr.compatibleWithMinValues(lr.pools.all[i], a)
				sg.hosted = sg.hosted || !sg.compatible[kind].All.Empty()
			}
			byKey[at] = sg
			if sg.hosted {
				lr.shapeGroups = append(lr.shapeGroups, sg)
			}
		}
		a.shapeGroup, a.inFilling = sg, 0
		a.order, a.ready = len(sg.allotments), false
		sg.allotments = append(sg.allotments, a)
		if a.group.mayBeFirst() {
			sg.independent = append(sg.independent, a)
		}
		for _, d := range a.group.nodeRules.needs {
			if sg.hosted {
				lr.followers[d.counter] = append(lr.followers[d.counter], a)
			}
		}
		if a.group.nodeRules.limitsOwnPods() {
			sg.limited = append(sg.limited, a)
		}
		sg.countLeft(a, 1)
	}
}

// best returns the candidate with the lowest price per worth of the pods that would fill it;
// nil when no pod can be placed any more. If two are equal, it returns the one with the
// larger worth (which means fewer nodes), then the cheaper one (for policy.fewestNodes, which leaves
// prices out), then the one of lower rank.
func (lr *launcher) best() *candidate {
	lr.boundPricePerWorth()
	for {
		best := lr.leastPricePerWorth()
		if best == nil || best.packing.empty() {
			return best
		}
		counted := best.worth
		if lr.fillAsPacked(best); len(best.content) > 0 && best.worth >= counted {
			return best
		}
		// Some of the pods that were counted keep others off: those of a class of which some hold a
		// preference and some do not count against each other's limits.
	}
}

// leastPricePerWorth is best without the pods that fill the candidate, where it is enough to count them.
func (lr *launcher) leastPricePerWorth() *candidate {
	var best *candidate
	least := math.Inf(1)
	for cand := range lr.promising(&least) {
		if !lr.fillingIsCurrent(cand) {
			if lr.isCountable(cand) {
				lr.pack(cand)
			} else {
				lr.fill(cand)
			}
		}
		if len(cand.content) == 0 && cand.packing.empty() {
			continue
		}
		cost := cand.price / cand.worth
		if best == nil || cost < least || cost == least && (cand.worth > best.worth || cand.worth == best.worth && cand.before(best)) {
			best, least = cand, cost
		}
	}
	return best
}

// fillingIsCurrent reports whether all pods of the candidate's filling are left to place.
func (lr *launcher) fillingIsCurrent(cand *candidate) bool {
	if !cand.filled {
		return false
	}
	for _, p := range cand.content {
		if p.allotment.left() < p.n || p.allotment.group.joinsItself() {
			return false
		}
	}
	return cand.packing.isCurrent(cand.group.suits, lr.shapesLeft.placed)
}

// launchCopies launches the candidate as often as its filling repeats. It reports false when
// limits or quota stopped it, or allow no node after these.
func (lr *launcher) launchCopies(cand *candidate) bool {
	copies := math.MaxInt32
	for _, p := range cand.content {
		copies = min(copies, p.allotment.left()/p.n)
		if p.allotment.group.joinsItself() {
			copies = min(copies, 1) // only the first of the copies can be the first pod anywhere
		}
	}
	allowed := lr.limits.nodesAllowed(cand.pool, cand.row)
	lr.launchCalls++
	// The sums of the shape groups are counted without these allotments meanwhile.
	for _, p := range cand.content {
		p.allotment.shapeGroup.countLeft(p.allotment, -1)
	}
	launched := lr.launches.launch(cand, min(copies, allowed), lr.minValues)
	for _, p := range cand.content {
		sg := p.allotment.shapeGroup
		sg.countLeft(p.allotment, 1)
		sg.somePlaced = sg.somePlaced || p.allotment.left() == 0
	}
	for _, p := range cand.content { // several may be of one shape group
		sg := p.allotment.shapeGroup
		lr.shapesLeft.note(sg)
		if sg.somePlaced {
			sg.dropPlaced()
		}
	}
	return launched == copies && copies < allowed
}

// allotmentWalk walks, in their order, over the allotments of a shape group of which pods may be put
// on the node that is filled, as far as their affinity goes. More may become ready meanwhile.
type allotmentWalk struct {
	shapeGroup *shapeGroup
	at         int // in shapeGroup.independent; of no use with shapeGroup.unrepelled
	order      int // of the last allotment
}

// walk begins to walk over the allotments, with those pods on the node.
func (sg *shapeGroup) walk(on *residents) allotmentWalk {
	if sg.unrepelled != nil {
		sg.unrepelled.begin(on)
	}
	return allotmentWalk{shapeGroup: sg, order: -1}
}

// put takes note that pods of the allotment have been put on the node.
func (w *allotmentWalk) put(a *allotment) {
	if u := w.shapeGroup.unrepelled; u != nil {
		u.add(&a.group.nodeRules)
	}
}

// next returns the next allotment; nil when there is none.
func (w *allotmentWalk) next() *allotment {
	next := w.independent()
	if ready := w.shapeGroup.ready; len(ready) > 0 {
		if first := firstAfter(ready, w.order); first != nil && (next == nil || first.order < next.order) {
			next = first
		}
	}
	if next != nil {
		w.order = next.order
	}
	return next
}

// independent returns the next of the independent allotments.
func (w *allotmentWalk) independent() *allotment {
	if u := w.shapeGroup.unrepelled; u != nil {
		return u.after(w.order)
	}
	independent := w.shapeGroup.independent
	for w.at < len(independent) && independent[w.at].order <= w.order {
		w.at++
	}
	if w.at == len(independent) {
		return nil
	}
	return independent[w.at]
}

// firstAfter returns the first allotment after that order in a list by order; nil when there is
// none. Most lists have one allotment, and most calls ask for the first: these search nothing.
func firstAfter(list []*allotment, order int) *allotment {
	switch n := len(list); {
	case n == 0 || list[n-1].order <= order:
		return nil
	case list[0].order > order:
		return list[0]
	}
	i, _ := slices.BinarySearchFunc(list, order+1, func(a *allotment, order int) int { return a.order - order })
	return list[i]
}

// countLeft adds the pods left of an allotment to the sums of the shape group, or subtracts them (by is
// 1 or -1).
func (sg *shapeGroup) countLeft(a *allotment, by int) {
	sg.left += by * a.left()
	sg.mostOnNode += by * a.leftForNode()
}

// dropPlaced drops the allotments that have no pods left.
func (sg *shapeGroup) dropPlaced() {
	placed := func(a *allotment) bool { return a.left() == 0 }
	for _, list := range []*[]*allotment{&sg.allotments, &sg.independent, &sg.limited} {
		*list = slices.DeleteFunc(*list, placed)
	}
	if sg.unrepelled != nil {
		sg.unrepelled.dropPlaced()
	}
	sg.somePlaced = false
}
