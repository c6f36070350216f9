// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"cmp"
	"math"
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/schedule/covering"
)

// apartness counts the pods left to place that share a counter, and how many of them one node
// may have.
type apartness struct{ pods, most int }

// forces reports whether the group's pods are spread over its nodes because the number of
// some of them per node is limited.
func (b *buyer) forces(g *candidateGroup) bool { return b.forced > 1 && len(g.apart) > 0 }

// share computes again how many nodes there must be and what each would hold, and sorts the
// candidates by that.
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

// apportion computes how many nodes there must be and what each would hold. It returns the
// requests of all pods left to place, without volumes that several pods mount: how often such
// a volume is attached depends on how many nodes its pods are on. So these volumes are not
// divided by the number of nodes either; a node may need a slot for each of them.
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

// mounted counts the slots that a node needs on which every volume is attached that pods left
// to place mount and other pods may mount too.
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
	for _, cand := range b.candidates {
		room := cand.room
		b.cap(cand, &room)
		cand.filled = false
		cand.floor = cand.price / max(b.prices.Units.Worth(&room)+b.valueOfPlace(cand), math.SmallestNonzeroFloat64)
	}
	slices.SortStableFunc(b.candidates, func(x, y *candidate) int { return cmp.Compare(x.floor, y.floor) })
}

// cap limits room to what one node would hold if all pods were spread evenly, when pods
// limited per node can go to the candidate.
func (b *buyer) cap(cand *candidate, room *quantity.Vector) {
	most := &b.whole
	if b.forces(cand.group) {
		most = &b.each
	}
	for d := range room {
		room[d] = min(room[d], most[d])
	}
}

// forcedNow is how many nodes the pods limited per node need: the number of those left that
// share a counter, divided by how many of them one node may have.
func (b *buyer) forcedNow() int {
	clear(b.crowded)
	for _, l := range b.shapeGroups {
		if !l.apart {
			continue
		}
		for _, a := range l.allotments {
			n := a.left()
			for _, c := range a.group.nodeRules.caps {
				if !c.own || n == 0 {
					continue
				}
				if limited := &b.crowded[c.counter]; limited.pods == 0 || c.most < limited.most {
					limited.most = c.most
				}
				b.crowded[c.counter].pods += n
			}
		}
	}
	forced := 0
	for _, limited := range b.crowded {
		forced = max(forced, (limited.pods+limited.most-1)/max(1, limited.most))
	}
	return forced
}

// valueOfPlace is the worth of one more node to pods limited per node, besides its capacity.
func (b *buyer) valueOfPlace(cand *candidate) float64 {
	if b.forces(cand.group) {
		return b.prices.Node
	}
	return 0
}

// worth returns the prices of one base unit of each resource, and of one more node for pods
// limited per node. The prices are the shadow prices, blended with a little of each resource's
// cheapest price, so that a resource in surplus still counts for something. cost is the least
// that the demand can cost.
func (b *buyer) worth(demand quantity.Vector) (cost float64, prices covering.Prices) {
	const blend = 0.05
	shapes := make([]covering.Shape, len(b.candidates))
	for i, cand := range b.candidates {
		shapes[i] = covering.Shape{Room: covering.Capped(cand.room, &demand), Price: cand.price}
	}
	cost, prices = covering.Solve(demand, b.forced, shapes)
	for d := range prices.Units {
		if demand[d] == 0 {
			continue
		}
		cheapest := math.Inf(1)
		for _, cand := range b.candidates {
			if cand.room[d] > 0 {
				cheapest = min(cheapest, cand.price/float64(cand.room[d]))
			}
		}
		if !math.IsInf(cheapest, 1) {
			prices.Units[d] = float64((1-blend)*prices.Units[d]) + float64(blend*cheapest)
		}
	}
	return cost, prices
}
