// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"math"
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/quantity"
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
	capacity       quantity.Vector // capacity before any pod was put there
	requiredValues []int           // the variety it needs; see launch.least
}

// fill packs the shape groups onto one node of c's offering. It adds one of each kind of pods
// limited per node, then each shape group's fair share of the pods left to place, so that no
// node uses up the small pods that fill the gaps of others. Then it adds all pods that still
// fit, large pods first.
func (b *launcher) fill(cand *candidate) {
	f := &b.filling
	f.reset(cand.room)
	cand.isFilled, cand.content, cand.requirements = true, cand.content[:0], cand.pool.base
	limited := b.demand.limits(cand.group)
	if limited {
		b.demand.capRoom(cand.group, &f.room)
	}
	f.capacity = f.room
	share := b.shareOf(cand)
	if limited {
		for _, l := range cand.group.limitedPerNode {
			b.putLimited(cand, l)
		}
	}
	for _, l := range cand.group.shapeGroups {
		if n := int(float64(l.left) * share); n > 0 {
			b.put(cand, l, n)
		}
	}
	for _, l := range cand.group.shapeGroups {
		b.put(cand, l, math.MaxInt32)
	}
	b.putJoining(cand)
	for _, a := range f.allotments {
		cand.content = append(cand.content, portion{a, a.inFilling})
	}
	cand.used, cand.requiredValues = f.capacity.Sub(f.room), f.requiredValues
	// A filling is never worth zero: placing its pods matters more than any price.
	cand.value = max(b.prices.Units.Worth(&cand.used), math.SmallestNonzeroFloat64)
	if slices.ContainsFunc(f.allotments, func(a *allotment) bool { return a.group.nodeRules.limitsOwnPods() }) {
		cand.value += b.valueOfNode(cand)
	}
}

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
	for _, l := range f.shapeGroups {
		l.inFilling = false
	}
	f.shapeGroups = f.shapeGroups[:0]
}

// shareOf is the fraction of everything left to place that one node of c could hold if pods
// were divisible.
func (b *launcher) shareOf(cand *candidate) float64 {
	g := cand.group
	if g.measuredAt != b.launched {
		g.measureDemand(b.launched)
	}
	share := 1.0
	for d, n := range g.demand {
		if n > 0 {
			share = min(share, float64(max(0, cand.room[d]))/float64(n))
		}
	}
	if b.demand.limits(g) {
		share = min(share, 1/float64(b.demand.minNodes))
	}
	return share
}

// put adds up to n pods of a shape group to the filling, as far as capacity and the pods
// there let it.
func (b *launcher) put(cand *candidate, l *shapeGroup, n int) {
	for _, a := range l.allotments {
		if n <= 0 || !b.hasRoom(l) {
			return
		}
		n -= b.putAllotment(cand, l, a, n)
	}
}

// holds reports whether the capacity left suffices for one more pod of the shape group.
func (b *launcher) hasRoom(l *shapeGroup) bool {
	for _, d := range l.shape.Dims {
		if b.filling.room[d] < l.shape.Requests[d] {
			return false
		}
	}
	return true
}

// putApart adds one of the pods limited per node, unless there is one already.
func (b *launcher) putLimited(cand *candidate, l *shapeGroup) {
	for _, a := range l.allotments {
		if !b.hasRoom(l) {
			return
		}
		for _, cap := range a.group.nodeRules.caps {
			if cap.own && b.filling.counts[cap.counter] == 0 && a.left() > 0 && b.putAllotment(cand, l, a, 1) > 0 {
				return
			}
		}
	}
}

// putFollowers tries pods again that must join other pods on the node: those may have been
// added later.
func (b *launcher) putJoining(cand *candidate) {
	for again := len(cand.group.joining) > 0; again; {
		again = false
		for _, l := range cand.group.joining {
			for _, a := range l.allotments {
				if len(a.group.nodeRules.needs) > 0 && b.putAllotment(cand, l, a, math.MaxInt32) > 0 {
					again = true
				}
			}
		}
	}
}

// putPart adds up to n pods of an allotment and returns how many it added.
func (b *launcher) putAllotment(cand *candidate, l *shapeGroup, a *allotment, n int) int {
	f := &b.filling
	if f.residents.bars(&a.group.nodeRules) {
		return 0
	}
	n = min(n, a.left()-a.inFilling, a.group.countFitting(&f.room))
	if n <= 0 {
		return 0
	}
	if a.group.spreads() {
		for _, o := range f.allotments {
			n = min(n, a.group.besideEarlier(o.group, func(i int) int { return f.counts[i] }))
		}
		if n <= 0 {
			return 0
		}
	}
	if a.group.nodeRules.restricted() {
		n = min(n, a.group.nodeRules.room(b.counters, func(i int) int { return f.counts[i] }))
		if n <= 0 {
			return 0
		}
		left, ok := mounted(f.room, a.group.nodeRules.mounts, func(m cluster.Mount) bool { return f.mounts[m] })
		if n = min(n, a.group.countFitting(&left)); !ok || n == 0 {
			return 0
		}
	}
	next := cand.requirements
	if !l.inFilling {
		var ok bool
		if next, ok = b.requirements.join(cand.requirements, cand.pool, cand.row, l.compatible[cand.poolIndex], a); !ok {
			return 0
		}
	}
	if cand.pool.hasMinValues() {
		if n = b.addableWithMinValues(cand, next, a, n); n == 0 {
			return 0
		}
	}
	if !l.inFilling {
		cand.requirements, l.inFilling = next, true
		f.shapeGroups = append(f.shapeGroups, l)
	}
	f.add(a, n)
	return n
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
	f.residents.join(&a.group.nodeRules)
	for _, i := range a.group.nodeRules.increments {
		if f.counts[i] == 0 {
			f.countersInUse = append(f.countersInUse, i)
		}
		f.counts[i] += n
	}
}
