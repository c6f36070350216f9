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
	dirty          []int // counters above zero
	residents      residents
	mounts         map[cluster.Mount]bool
	joined         []*shapeGroup
	order          []*allotment
	whole          quantity.Vector // capacity before any pod was put there
	requiredValues []int           // the variety it needs; see launch.least
}

// fill packs the shape groups onto one node of c's offering. It adds one of each kind of pods
// limited per node, then each shape group's fair share of the pods left to place, so that no
// node uses up the small pods that fill the gaps of others. Then it adds all pods that still
// fit, large pods first.
func (b *buyer) fill(cand *candidate) {
	f := &b.scratch
	f.reset(cand.room)
	cand.filled, cand.content, cand.requirements = true, cand.content[:0], cand.pool.base
	forces := b.forces(cand.group)
	if forces {
		b.cap(cand, &f.room)
	}
	f.whole = f.room
	share := b.shareOf(cand)
	if forces {
		for _, l := range cand.group.apart {
			b.putApart(cand, l)
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
	b.putFollowers(cand)
	for _, a := range f.order {
		cand.content = append(cand.content, portion{a, a.taken})
	}
	cand.used, cand.requiredValues = f.whole.Sub(f.room), f.requiredValues
	// A filling is never worth zero: placing its pods matters more than any price.
	cand.value = max(b.prices.Units.Worth(&cand.used), math.SmallestNonzeroFloat64)
	if slices.ContainsFunc(f.order, func(a *allotment) bool { return a.group.nodeRules.keepsApart() }) {
		cand.value += b.valueOfPlace(cand)
	}
}

func (f *filling) reset(room quantity.Vector) {
	f.room = room
	for _, c := range f.dirty {
		f.counts[c] = 0
	}
	for _, a := range f.order {
		a.taken = 0
	}
	f.dirty, f.order, f.requiredValues = f.dirty[:0], f.order[:0], nil
	clear(f.mounts)
	f.residents.clear()
	for _, l := range f.joined {
		l.joined = false
	}
	f.joined = f.joined[:0]
}

// shareOf is the fraction of everything left to place that one node of c could hold if pods
// were divisible.
func (b *buyer) shareOf(cand *candidate) float64 {
	g := cand.group
	if g.purchases != b.purchases {
		g.measure(b.purchases)
	}
	share := 1.0
	for d, n := range g.demand {
		if n > 0 {
			share = min(share, float64(max(0, cand.room[d]))/float64(n))
		}
	}
	if b.forces(g) {
		share = min(share, 1/float64(b.forced))
	}
	return share
}

// put adds up to n pods of a shape group to the filling, as far as capacity and the pods
// there let it.
func (b *buyer) put(cand *candidate, l *shapeGroup, n int) {
	for _, a := range l.allotments {
		if n <= 0 || !b.holds(l) {
			return
		}
		n -= b.putPart(cand, l, a, n)
	}
}

// holds reports whether the capacity left suffices for one more pod of the shape group.
func (b *buyer) holds(l *shapeGroup) bool {
	for _, d := range l.shape.Dims {
		if b.scratch.room[d] < l.shape.Requests[d] {
			return false
		}
	}
	return true
}

// putApart adds one of the pods limited per node, unless there is one already.
func (b *buyer) putApart(cand *candidate, l *shapeGroup) {
	for _, a := range l.allotments {
		if !b.holds(l) {
			return
		}
		for _, cap := range a.group.nodeRules.caps {
			if cap.own && b.scratch.counts[cap.counter] == 0 && a.left() > 0 && b.putPart(cand, l, a, 1) > 0 {
				return
			}
		}
	}
}

// putFollowers tries pods again that must join other pods on the node: those may have been
// added later.
func (b *buyer) putFollowers(cand *candidate) {
	for again := len(cand.group.following) > 0; again; {
		again = false
		for _, l := range cand.group.following {
			for _, a := range l.allotments {
				if len(a.group.nodeRules.needs) > 0 && b.putPart(cand, l, a, math.MaxInt32) > 0 {
					again = true
				}
			}
		}
	}
}

// putPart adds up to n pods of an allotment and returns how many it added.
func (b *buyer) putPart(cand *candidate, l *shapeGroup, a *allotment, n int) int {
	f := &b.scratch
	if f.residents.bars(&a.group.nodeRules) {
		return 0
	}
	n = min(n, a.left()-a.taken, a.group.fits(&f.room))
	if n <= 0 {
		return 0
	}
	if a.group.spreads() {
		for _, o := range f.order {
			n = min(n, a.group.ahead(o.group, func(i int) int { return f.counts[i] }))
		}
		if n <= 0 {
			return 0
		}
	}
	if a.group.nodeRules.restricted() {
		n = min(n, a.group.nodeRules.room(&b.counters, func(i int) int { return f.counts[i] }))
		if n <= 0 {
			return 0
		}
		left, ok := mounted(f.room, a.group.nodeRules.mounts, func(m cluster.Mount) bool { return f.mounts[m] })
		if n = min(n, a.group.fits(&left)); !ok || n == 0 {
			return 0
		}
	}
	next := cand.requirements
	if !l.joined {
		var ok bool
		if next, ok = b.requirements.join(cand.requirements, cand.pool, cand.row, l.fits[cand.tier], a); !ok {
			return 0
		}
	}
	if cand.pool.hasMinValues() {
		if n = b.addableWithMinValues(cand, next, a, n); n == 0 {
			return 0
		}
	}
	if !l.joined {
		cand.requirements, l.joined = next, true
		f.joined = append(f.joined, l)
	}
	f.take(a, n)
	return n
}

func (f *filling) take(a *allotment, n int) {
	if a.taken == 0 {
		f.order = append(f.order, a)
	}
	a.taken += n
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
			f.dirty = append(f.dirty, i)
		}
		f.counts[i] += n
	}
}
