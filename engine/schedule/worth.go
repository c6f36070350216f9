package schedule

import (
	"cmp"
	"math"
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/quantity"
)

// apartness counts the pods left to place that share a counter, and how many of
// them one machine may have.
type apartness struct{ pods, most int }

// forces reports whether machines for the group share its pods out, as some of those
// keep apart.
func (b *buyer) forces(g *candidateGroup) bool { return b.forced > 1 && len(g.apart) > 0 }

// share works out anew how many machines there must be and what each would hold,
// and ranks the candidates by that.
func (b *buyer) share() {
	b.apportion()
	for d, n := range b.each {
		if n > b.brim[d] && b.brim[d] < b.whole[d] {
			b.gather()
			return
		}
	}
	b.rank()
}

// apportion works out how many machines there must be and what each would hold.
// It returns what is left to place in all. Volumes that several pods mount are not part of that:
// how often one is attached depends on how many machines its pods are on. So they are not shared
// out either; a machine may need a slot for each of them.
func (b *buyer) apportion() quantity.Vector {
	b.forced, b.shared = b.forcedNow(), b.purchases
	var demand, largest quantity.Vector
	for _, l := range b.shapeGroups {
		if l.left == 0 {
			continue
		}
		demand = demand.Add(l.shape.Requests.Times(l.left))
		for d, n := range l.shape.Requests {
			largest[d] = max(largest[d], n)
		}
	}
	mounted := b.mounted()
	b.whole = demand.Add(mounted)
	b.each = b.whole
	b.asked = b.asked[:0]
	for d, n := range b.whole {
		if n > 0 {
			b.asked = append(b.asked, d)
		}
	}
	if b.forced > 1 {
		for d := range b.each {
			b.each[d] = max(largest[d], demand[d]/int64(b.forced)+largest[d]/2) + mounted[d]
		}
	}
	return demand
}

// mounted counts the slots that a machine with every volume needs which pods left to place mount
// and others may mount too.
func (b *buyer) mounted() (slots quantity.Vector) {
	var seen map[cluster.Mount]bool
	for _, l := range b.shapeGroups {
		if l.left == 0 {
			continue
		}
		for _, m := range l.shape.Mounts {
			if seen == nil {
				seen = map[cluster.Mount]bool{}
			}
			if !seen[m] {
				seen[m] = true
				slots[m.Dim]++
			}
		}
	}
	return slots
}

// rank sorts the candidates by the least that a unit of value can cost there.
func (b *buyer) rank() {
	for _, c := range b.candidates {
		room := c.room
		b.cap(c, &room)
		c.filled = false
		c.floor = c.price / max(b.valueOf(&room)+b.valueOfPlace(c), math.SmallestNonzeroFloat64)
	}
	slices.SortStableFunc(b.candidates, func(x, y *candidate) int { return cmp.Compare(x.floor, y.floor) })
}

// cap limits a room to what one machine would hold if all were shared out evenly,
// where the candidate's pods are.
func (b *buyer) cap(c *candidate, room *quantity.Vector) {
	most := &b.whole
	if b.forces(c.group) {
		most = &b.each
	}
	for d := range room {
		room[d] = min(room[d], most[d])
	}
}

// forcedNow is how many machines the pods that keep apart need: those left that
// share a counter, by how many of them one machine may have.
func (b *buyer) forcedNow() int {
	clear(b.crowded)
	for _, l := range b.shapeGroups {
		if !l.apart {
			continue
		}
		for _, p := range l.parts {
			n := p.left()
			for _, c := range p.nodeRules.caps {
				if !c.own || n == 0 {
					continue
				}
				if a := &b.crowded[c.counter]; a.pods == 0 || c.most < a.most {
					a.most = c.most
				}
				b.crowded[c.counter].pods += n
			}
		}
	}
	forced := 0
	for _, a := range b.crowded {
		forced = max(forced, (a.pods+a.most-1)/max(1, a.most))
	}
	return forced
}

// valueOf prices the contents of a vector.
func (b *buyer) valueOf(v *quantity.Vector) float64 {
	var value float64
	for d, n := range v {
		value += float64(float64(max(0, n)) * b.lambda[d])
	}
	return value
}

// valueOfPlace is what a machine is worth to a pod that keeps apart, besides its room.
func (b *buyer) valueOfPlace(c *candidate) float64 {
	if b.forces(c.group) {
		return b.mu
	}
	return 0
}

// worth prices one base unit of each resource and one machine that pods which keep
// apart have to themselves: the shadow prices, blended with a little of each
// resource's cheapest price so that content of a resource which is in surplus still
// counts for something. cost is the least that the demand can cost.
func (b *buyer) worth(demand quantity.Vector) (cost float64, lambda [quantity.Dims]float64, mu float64) {
	const blend = 0.05
	shapes := make([]shape, len(b.candidates))
	for i, c := range b.candidates {
		shapes[i] = shape{capped(c.room, &demand), c.price}
	}
	cost, lambda, mu = shadow(demand, b.forced, shapes)
	for d := range lambda {
		if demand[d] == 0 {
			continue
		}
		cheapest := math.Inf(1)
		for _, c := range b.candidates {
			if c.room[d] > 0 {
				cheapest = min(cheapest, c.price/float64(c.room[d]))
			}
		}
		if !math.IsInf(cheapest, 1) {
			lambda[d] = float64((1-blend)*lambda[d]) + float64(blend*cheapest)
		}
	}
	return cost, lambda, mu
}
