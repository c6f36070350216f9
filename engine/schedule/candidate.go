// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"cmp"
	"math"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/schedule/covering"
)

// candidate is an offering that could be launched next, with the best filling found for it.
type candidate struct {
	pool             *poolState
	poolIndex        int // index of the pool in the tier
	row              int
	room             quantity.Vector
	price            float64
	group            *candidateGroup
	minPricePerValue float64 // price per value if it were filled completely: no filling costs less per value
	// The filling below is valid while every allotment in it has that many pods left.
	isFilled       bool
	content        []portion
	requirements   *nodeRequirements
	value          float64
	used           quantity.Vector
	requiredValues []int // the variety it needs; see launch.least
}

// candidateGroup is what candidates that suit the same shape groups share.
type candidateGroup struct {
	suits       bitset.Set    // indices of the shape groups that may go there
	shapeGroups []*shapeGroup // the same, in order
	// apart are those with pods limited per node, following those with pods that must join
	// other pods on the node.
	limitedPerNode, joining []*shapeGroup
	// demand is what the pods left to place of the shape groups ask for; computed when the
	// buyer had launched that many nodes.
	demand     quantity.Vector
	measuredAt int
}

// gatherCandidates makes the list of candidates and prices the resources.
func (b *launcher) gatherCandidates() {
	b.refreshMinValues()
	b.gatheredAt = b.launched
	requests := b.divide()
	b.demand.setUseful()
	b.candidates = b.candidates[:0]
	for i := range b.pools {
		for _, g := range b.groupOfferings(i) {
			b.candidates = b.addUndominated(b.candidates, i, g)
		}
	}
	slices.SortStableFunc(b.candidates, func(x, y *candidate) int {
		return cmp.Or(cmp.Compare(x.price, y.price), -cmp.Compare(len(x.group.shapeGroups), len(y.group.shapeGroups)), cmp.Compare(x.poolIndex, y.poolIndex), cmp.Compare(x.row, y.row))
	})
	b.candidates = b.undominated(b.candidates)
	var cost float64
	cost, b.prices = b.priceResources(requests)
	if b.stopEarly {
		b.limits.price.foresee(cost)
	}
	b.sortByPricePerValue()
}

// divide computes again how the pods left to place divide over nodes, and returns their
// requests.
func (b *launcher) divide() quantity.Vector {
	b.dividedAt = b.launched
	return b.demand.divide(b.shapeGroups)
}

// divideAgain computes again how many nodes there must be and what each would hold, and sorts
// the candidates by that.
func (b *launcher) divideAgain() {
	b.divide()
	if b.demand.outgrown() {
		b.gatherCandidates()
		return
	}
	b.sortByPricePerValue()
}

// offeringGroup is offerings of one pool that suit the same shape groups.
type offeringGroup struct {
	rows  bitset.Set
	suits bitset.Set
}

// split groups the offerings of a pool by the shape groups that they suit.
func (b *launcher) groupOfferings(i int) []offeringGroup {
	rows := b.pools[i].available()
	if b.topology.openNoDomain {
		rows = rows.And(b.topology.inCountedDomains(b.pools[i]))
	}
	lots := []offeringGroup{{rows: rows}}
	for _, alike := range b.groupByOfferings(i) {
		fits := alike.rows
		for j := range lots {
			g := &lots[j]
			switch {
			case !g.rows.Meets(fits):
			case g.rows.Within(fits):
				g.suits.Merge(alike.suits)
			default:
				in := offeringGroup{rows: g.rows.And(fits), suits: g.suits.Or(alike.suits)}
				g.rows = g.rows.Minus(fits)
				lots = append(lots, in)
			}
		}
	}
	return slices.DeleteFunc(lots, func(g offeringGroup) bool { return g.suits.Empty() })
}

// alike groups the shape groups that fit the same offerings of a pool: most small pods fit
// all.
func (b *launcher) groupByOfferings(i int) []offeringGroup {
	var out []offeringGroup
	known := map[string]int{}
	var key []byte
	for at, l := range b.shapeGroups {
		if l.left == 0 {
			continue
		}
		fits := l.compatible[i].All
		key = fits.Append(key[:0])
		n, ok := known[string(key)]
		if !ok {
			n = len(out)
			out, known[string(key)] = append(out, offeringGroup{rows: fits}), n
		}
		out[n].suits.Put(at)
	}
	return out
}

// addUndominated adds the offerings of a group for which no cheaper one of the group is at
// least as good in every way.
func (b *launcher) addUndominated(out []*candidate, i int, g offeringGroup) []*candidate {
	pool, first := b.pools[i], len(out)
	shared := &candidateGroup{suits: g.suits, measuredAt: -1}
	for at := range g.suits.All() {
		l := b.shapeGroups[at]
		shared.shapeGroups = append(shared.shapeGroups, l)
		if l.limitedPerNode {
			shared.limitedPerNode = append(shared.limitedPerNode, l)
		}
		if l.joining {
			shared.joining = append(shared.joining, l)
		}
	}
	most := b.largestWithMinValues(i, shared)
	for row := range g.rows.All() {
		room := &pool.Allocatable[row]
		if most != nil {
			room = minOf(room, most)
		}
		if b.dominated(out[first:], room, shared) || b.limits.affordable(pool, row) == 0 {
			continue
		}
		out = append(out, &candidate{pool: pool, poolIndex: i, row: row, room: *room, price: pool.Catalog.Offerings[row].Price.USD(), group: shared})
	}
	return out
}

// beaten reports whether one of the candidates has at least that capacity, as far as it is of
// use. It starts with the last, which are larger and most likely do.
func (b *launcher) dominated(by []*candidate, room *quantity.Vector, g *candidateGroup) bool {
	for _, cand := range slices.Backward(by) {
		if b.demand.coversUseful(g, &cand.room, room) {
			return true
		}
	}
	return false
}

// undominated drops candidates for which a cheaper one is at least as good in every way. The
// list is sorted by price.
func (b *launcher) undominated(sorted []*candidate) []*candidate {
	var kept []*candidate
	for _, cand := range sorted {
		if !slices.ContainsFunc(kept, func(k *candidate) bool {
			return b.demand.coversUseful(cand.group, &k.room, &cand.room) && cand.group.suits.Within(k.group.suits)
		}) {
			kept = append(kept, cand)
		}
	}
	return kept
}

// measure sums up the requests of the pods left to place.
func (g *candidateGroup) measureDemand(purchases int) {
	g.measuredAt, g.demand = purchases, quantity.Vector{}
	for _, l := range g.shapeGroups {
		for _, d := range l.shape.Dims {
			g.demand[d] += min(quantity.Most/int64(len(g.shapeGroups)), l.shape.Requests[d]*int64(l.left))
		}
	}
}

// sortByPricePerValue sorts the candidates by the least that a unit of value can cost there.
func (b *launcher) sortByPricePerValue() {
	for _, cand := range b.candidates {
		room := cand.room
		b.demand.capRoom(cand.group, &room)
		cand.isFilled = false
		cand.minPricePerValue = cand.price / max(b.prices.Units.Worth(&room)+b.valueOfNode(cand), math.SmallestNonzeroFloat64)
	}
	slices.SortStableFunc(b.candidates, func(x, y *candidate) int { return cmp.Compare(x.minPricePerValue, y.minPricePerValue) })
}

// valueOfNode is the worth of one more node to pods limited per node, besides its capacity.
func (b *launcher) valueOfNode(cand *candidate) float64 {
	if b.demand.limits(cand.group) {
		return b.prices.Node
	}
	return 0
}

// priceResources returns the prices of one base unit of each resource, and of one more node for pods
// limited per node. The prices are the shadow prices, blended with a little of each resource's
// cheapest price, so that a resource in surplus still counts for something. cost is the least
// that the demand can cost.
func (b *launcher) priceResources(demand quantity.Vector) (cost float64, prices covering.Prices) {
	const blend = 0.05
	shapes := make([]covering.Shape, len(b.candidates))
	for i, cand := range b.candidates {
		shapes[i] = covering.Shape{Room: covering.Capped(cand.room, &demand), Price: cand.price}
	}
	cost, prices = covering.Solve(demand, b.demand.minNodes, shapes)
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
