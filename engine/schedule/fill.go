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
	room   quantity.Vector
	counts []int // by counter
	dirty  []int // counters above zero
	residents
	mounts map[cluster.Mount]bool
	joined []*shapeGroup
	order  []*allotment
	whole  quantity.Vector // capacity before any pod was put there
	least  []int           // the variety it needs; see launch.least
}

// fill packs the shape groups onto one node of c's offering. It adds one of each kind of pods
// limited per node, then each shape group's fair share of the pods left to place, so that no
// node uses up the small pods that fill the gaps of others. Then it adds all pods that still
// fit, large pods first.
func (b *buyer) fill(c *candidate) {
	f := &b.scratch
	f.reset(c.room)
	c.filled, c.content, c.requirements = true, c.content[:0], c.pool.base
	forces := b.forces(c.group)
	if forces {
		b.cap(c, &f.room)
	}
	f.whole = f.room
	share := b.shareOf(c)
	if forces {
		for _, l := range c.group.apart {
			b.putApart(c, l)
		}
	}
	for _, l := range c.group.shapeGroups {
		if n := int(float64(l.left) * share); n > 0 {
			b.put(c, l, n)
		}
	}
	for _, l := range c.group.shapeGroups {
		b.put(c, l, math.MaxInt32)
	}
	b.putFollowers(c)
	for _, p := range f.order {
		c.content = append(c.content, portion{p, p.taken})
	}
	c.used, c.least = f.whole.Sub(f.room), f.least
	// A filling is never worth zero: placing its pods matters more than any price.
	c.value = max(b.prices.Units.Worth(&c.used), math.SmallestNonzeroFloat64)
	if slices.ContainsFunc(f.order, func(p *allotment) bool { return p.nodeRules.keepsApart() }) {
		c.value += b.valueOfPlace(c)
	}
}

func (f *filling) reset(room quantity.Vector) {
	f.room = room
	for _, c := range f.dirty {
		f.counts[c] = 0
	}
	for _, p := range f.order {
		p.taken = 0
	}
	f.dirty, f.order, f.least = f.dirty[:0], f.order[:0], nil
	clear(f.mounts)
	f.clear()
	for _, l := range f.joined {
		l.joined = false
	}
	f.joined = f.joined[:0]
}

// shareOf is the fraction of everything left to place that one node of c could hold if pods
// were divisible.
func (b *buyer) shareOf(c *candidate) float64 {
	g := c.group
	if g.purchases != b.purchases {
		g.measure(b.purchases)
	}
	share := 1.0
	for d, n := range g.demand {
		if n > 0 {
			share = min(share, float64(max(0, c.room[d]))/float64(n))
		}
	}
	if b.forces(g) {
		share = min(share, 1/float64(b.forced))
	}
	return share
}

// put adds up to n pods of a shape group to the filling, as far as capacity and the pods
// there let it.
func (b *buyer) put(c *candidate, l *shapeGroup, n int) {
	for _, p := range l.parts {
		if n <= 0 || !b.holds(l) {
			return
		}
		n -= b.putPart(c, l, p, n)
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
func (b *buyer) putApart(c *candidate, l *shapeGroup) {
	for _, p := range l.parts {
		if !b.holds(l) {
			return
		}
		for _, cap := range p.nodeRules.caps {
			if cap.own && b.scratch.counts[cap.counter] == 0 && p.left() > 0 && b.putPart(c, l, p, 1) > 0 {
				return
			}
		}
	}
}

// putFollowers tries pods again that must join other pods on the node: those may have been
// added later.
func (b *buyer) putFollowers(c *candidate) {
	for again := len(c.group.following) > 0; again; {
		again = false
		for _, l := range c.group.following {
			for _, p := range l.parts {
				if len(p.nodeRules.needs) > 0 && b.putPart(c, l, p, math.MaxInt32) > 0 {
					again = true
				}
			}
		}
	}
}

// putPart adds up to n pods of an allotment and returns how many it added.
func (b *buyer) putPart(c *candidate, l *shapeGroup, p *allotment, n int) int {
	f := &b.scratch
	if f.bars(&p.nodeRules) {
		return 0
	}
	n = min(n, p.left()-p.taken, p.fits(&f.room))
	if n <= 0 {
		return 0
	}
	if p.spreads() {
		for _, o := range f.order {
			n = min(n, p.ahead(o.podGroup, func(i int) int { return f.counts[i] }))
		}
		if n <= 0 {
			return 0
		}
	}
	if p.nodeRules.restricted() {
		n = min(n, p.nodeRules.room(&b.counters, func(i int) int { return f.counts[i] }))
		if n <= 0 {
			return 0
		}
		left, ok := mounted(f.room, p.nodeRules.mounts, func(m cluster.Mount) bool { return f.mounts[m] })
		if n = min(n, p.fits(&left)); !ok || n == 0 {
			return 0
		}
	}
	next := c.requirements
	if !l.joined {
		var ok bool
		if next, ok = b.requirements.join(c.requirements, c.pool, c.row, l.fits[c.tier], p); !ok {
			return 0
		}
	}
	if c.pool.varied() {
		if n = b.diverse(c, next, p, n); n == 0 {
			return 0
		}
	}
	if !l.joined {
		c.requirements, l.joined = next, true
		f.joined = append(f.joined, l)
	}
	f.take(p, n)
	return n
}

func (f *filling) take(p *allotment, n int) {
	if p.taken == 0 {
		f.order = append(f.order, p)
	}
	p.taken += n
	for _, d := range p.Dims {
		f.room[d] -= int64(n) * p.Requests[d]
	}
	for _, m := range p.nodeRules.mounts {
		if !f.mounts[m] {
			f.mounts[m] = true
			f.room[m.Dim]--
		}
	}
	f.join(&p.nodeRules)
	for _, i := range p.nodeRules.increments {
		if f.counts[i] == 0 {
			f.dirty = append(f.dirty, i)
		}
		f.counts[i] += n
	}
}
