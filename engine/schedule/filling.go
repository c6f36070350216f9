// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"iter"
	"math"
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/schedule/covering"
)

// filling is the node that fill works on.
type filling struct {
	room           quantity.Vector
	counts         []int // by counter
	countersInUse  []int // counters above zero
	residents      residents
	mounts         map[cluster.Mount]bool
	shapeGroups    []*shapeGroup
	allotments     []*allotment
	joining        []*allotment    // that must join pods on the node, and may
	capacity       quantity.Vector // capacity before any pod was put there
	requiredValues []int           // see launch.requiredValues
}

// fill packs the shape groups onto one node of the candidate's offering. It adds one of each
// kind of pods limited per node, then each shape group's fair share of the pods left to place,
// so that no node uses up the small pods that fill the gaps of others. Then, or at once by
// policy.largestFirst, it adds all pods that still fit, large pods first.
func (lr *launcher) fill(cand *candidate) {
	f := lr.filling
	lr.begin(cand)
	if !lr.launches.policy.largestFirst {
		for i, n := range lr.shares(cand) {
			lr.put(cand, lr.shapeGroups[i], n)
		}
	}
	left, all := &lr.shapesLeft, len(lr.shapeGroups)
	for i := left.fitting(0, all, cand.group.suits, &f.room); i >= 0; i = left.fitting(i+1, all, cand.group.suits, &f.room) {
		lr.put(cand, lr.shapeGroups[i], math.MaxInt32)
	}
	lr.putJoining(cand)
	lr.finish(cand)
}

// begin begins to fill a node of the candidate's offering, with one of each kind of pods limited per node.
func (lr *launcher) begin(cand *candidate) {
	f := lr.filling
	f.reset(cand.room)
	cand.requirements = cand.pool.base
	limited := lr.demand.spreadsOverNodes(cand.group)
	if limited {
		lr.demand.capRoom(cand.group, &f.room)
	}
	f.capacity = f.room
	if limited {
		for _, sg := range cand.group.limitedPerNode {
			lr.putLimited(cand, sg)
		}
	}
}

// finish makes what has been put on the node the candidate's filling.
func (lr *launcher) finish(cand *candidate) {
	f := lr.filling
	cand.filled = true
	cand.packing.clear()
	cand.content = slices.Grow(cand.content[:0], len(f.allotments))
	for _, a := range f.allotments {
		cand.content = append(cand.content, portion{a, a.inFilling})
	}
	cand.used, cand.requiredValues = f.capacity.Sub(f.room), f.requiredValues
	cand.worth = worthOf(&cand.used, &lr.prices.Units)
	if slices.ContainsFunc(f.allotments, func(a *allotment) bool { return a.group.nodeRules.limitsOwnPods() }) {
		cand.worth += lr.worthOfNode(cand)
	}
}

// worthOf is what the pods that use so much are worth. It is never zero: placing them matters more than
// any price.
func worthOf(used *quantity.Vector, prices *covering.UnitPrices) float64 {
	return max(prices.Worth(used), math.SmallestNonzeroFloat64)
}

// shares yields each shape group's fair share of the pods left to place, where it is not none.
func (lr *launcher) shares(cand *candidate) iter.Seq2[int, int] {
	return func(yield func(int, int) bool) {
		left, suits, share := &lr.shapesLeft, cand.group.suits, lr.shareOf(cand)
		if lr.launches.policy.carryShares {
			left.carriedShares(suits, share, yield)
		} else {
			left.wholeShares(suits, share, yield)
		}
	}
}

// podsOf counts the pods of the shape group on the node.
func (f *filling) podsOf(sg *shapeGroup) int {
	if !sg.inFilling {
		return 0
	}
	n := 0
	for _, a := range f.allotments {
		if a.shapeGroup == sg {
			n += a.inFilling
		}
	}
	return n
}

// podsByGroup yields the groups of the pods on the node, some perhaps several times, and how many each
// has.
func (f *filling) podsByGroup(yield func(*podGroup, int) bool) {
	for _, a := range f.allotments {
		if !yield(a.group, a.inFilling) {
			return
		}
	}
}

// reset empties the filling for a node with that capacity.
func (f *filling) reset(room quantity.Vector) {
	f.room = room
	for _, c := range f.countersInUse {
		f.counts[c] = 0
	}
	for _, a := range f.allotments {
		a.inFilling = 0
	}
	f.countersInUse, f.allotments, f.requiredValues = f.countersInUse[:0], f.allotments[:0], nil
	clear(f.mounts)
	f.residents.clear()
	for _, sg := range f.shapeGroups {
		sg.inFilling = false
	}
	for _, a := range f.joining {
		a.ready, a.shapeGroup.ready = false, a.shapeGroup.ready[:0]
	}
	f.shapeGroups, f.joining = f.shapeGroups[:0], f.joining[:0]
}

// shareOf is the fraction of everything left to place that one node of the candidate could
// hold if pods were divisible.
func (lr *launcher) shareOf(cand *candidate) float64 {
	g := cand.group
	share := 1.0
	for d, n := range g.requestsLeft(lr.shapesLeft.placed) {
		if n > 0 {
			share = min(share, float64(max(0, cand.room[d]))/float64(n))
		}
	}
	if lr.demand.spreadsOverNodes(g) {
		share = min(share, 1/float64(lr.demand.minNodes))
	}
	return share
}

// put adds up to n pods of a shape group to the filling, as far as capacity and the pods
// there let it.
func (lr *launcher) put(cand *candidate, sg *shapeGroup, n int) {
	walk := sg.walk(&lr.filling.residents)
	room := lr.filling.hasRoom(sg)
	for a := walk.next(); a != nil && n > 0 && room; a = walk.next() {
		if added := lr.putAllotment(cand, sg, a, n); added > 0 {
			walk.put(a)
			n, room = n-added, lr.filling.hasRoom(sg)
		}
	}
}

// hasRoom reports whether the capacity left suffices for one more pod of the shape group.
func (f *filling) hasRoom(sg *shapeGroup) bool {
	for _, d := range sg.shape.Dims {
		if f.room[d] < sg.shape.Requests[d] {
			return false
		}
	}
	return true
}

// putLimited adds one of the pods limited per node, unless there is one already.
func (lr *launcher) putLimited(cand *candidate, sg *shapeGroup) {
	if !lr.filling.hasRoom(sg) {
		return
	}
	for _, a := range sg.limited {
		for _, cap := range a.group.nodeRules.maxCounts {
			if cap.countsOwnPods && lr.filling.counts[cap.counter] == 0 && a.left() > 0 && lr.putAllotment(cand, sg, a, 1) > 0 {
				return
			}
		}
	}
}

// putJoining tries pods again that must join other pods on the node: those may have been added
// later.
func (lr *launcher) putJoining(cand *candidate) {
	for again := len(lr.filling.joining) > 0; again; {
		again = false
		for i := 0; i < len(lr.filling.joining); i++ { // the list may grow
			a := lr.filling.joining[i]
			if cand.group.suits.Has(a.shapeGroup.at) && lr.putAllotment(cand, a.shapeGroup, a, math.MaxInt32) > 0 {
				again = true
			}
		}
	}
}

// putAllotment adds up to n pods of an allotment and returns how many it added.
func (lr *launcher) putAllotment(cand *candidate, sg *shapeGroup, a *allotment, n int) int {
	f := lr.filling
	if f.residents.keepOff(&a.group.nodeRules) {
		return 0
	}
	n = a.group.fittingOf(min(n, a.left()-a.inFilling), &f.room)
	if n <= 0 {
		return 0
	}
	if a.group.nodeRules.restricted() {
		n = min(n, a.group.nodeRules.roomFor(lr.counters, func(i int) int { return f.counts[i] }))
		if n <= 0 {
			return 0
		}
		left, ok := mounted(f.room, a.group.nodeRules.mounts, func(m cluster.Mount) bool { return f.mounts[m] })
		if n = min(n, a.group.countFitting(&left)); !ok || n == 0 {
			return 0
		}
	}
	if count := func(c int) int { return f.counts[c] }; a.group.hasSpread() && f.residents.mayLimit(&a.group.nodeRules, n, count) {
		for _, o := range f.allotments {
			n = min(n, a.group.maxPodsBesideEarlier(o.group, countWithoutLast(o.group, f.podsByGroup)))
		}
		if n <= 0 {
			return 0
		}
	}
	next := cand.requirements
	if !sg.inFilling {
		var ok bool
		if next, ok = lr.requirements.joinGroup(cand, sg, a); !ok {
			return 0
		}
	}
	if cand.pool.hasMinValues() {
		if n = lr.addableWithMinValues(cand, next, a, n); n == 0 {
			return 0
		}
	}
	if !sg.inFilling {
		cand.requirements, sg.inFilling = next, true
		f.shapeGroups = append(f.shapeGroups, sg)
	}
	f.add(a, n)
	for _, c := range a.group.nodeRules.increments {
		if f.counts[c] == n { // these are the first
			lr.addJoining(c)
		}
	}
	return n
}

// addJoining makes allotments ready to be added to the filling that must join pods which the counter
// counts.
func (lr *launcher) addJoining(counter int) {
	for _, a := range lr.followers[counter] {
		if a.left() == 0 || a.ready {
			continue
		}
		a.ready = true
		lr.filling.joining = append(lr.filling.joining, a)
		if a.group.mayBeFirst() {
			continue
		}
		sg := a.shapeGroup
		i, _ := slices.BinarySearchFunc(sg.ready, a.order, func(o *allotment, order int) int { return o.order - order })
		sg.ready = slices.Insert(sg.ready, i, a)
	}
}

func (f *filling) add(a *allotment, n int) {
	if a.inFilling == 0 {
		f.allotments = append(f.allotments, a)
	}
	a.inFilling += n
	for _, d := range a.group.shape.Dims {
		f.room[d] -= int64(n) * a.group.shape.Requests[d]
	}
	for _, m := range a.group.nodeRules.mounts {
		if !f.mounts[m] {
			f.mounts[m] = true
			f.room[m.Dim]--
		}
	}
	f.residents.add(&a.group.nodeRules)
	for _, i := range a.group.nodeRules.increments {
		if f.counts[i] == 0 {
			f.countersInUse = append(f.countersInUse, i)
		}
		f.counts[i] += n
	}
}
