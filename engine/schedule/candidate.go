// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"cmp"
	"iter"
	"math"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/schedule/covering"
)

// candidate is an offering that could be launched next, with the best filling found for it.
type candidate struct {
	pool             *poolState
	poolIndex        int // index of the pool in the launcher's pools
	row              int
	room             quantity.Vector
	price            float64
	group            *candidateGroup
	minPricePerWorth float64 // no filling costs less per worth
	roomWorth        float64 // the most that the pods left can be worth on a node, by its capacity
	boundedByLeading bool    // minPricePerWorth looks at leading pods
	rank             int     // by price per worth if it were filled completely
	// The filling below is valid while every allotment in content has that many pods left, and packing is
	// current. At most one of the two is not empty.
	filled         bool
	content        []portion
	packing        packing
	requirements   *nodeRequirements
	worth          float64
	used           quantity.Vector
	requiredValues []int // see launch.requiredValues
}

// candidateGroup is what candidates that suit the same shape groups share.
type candidateGroup struct {
	poolKind       int           // of their pool: see alikePools
	suits          bitset.Set    // indices of the shape groups that may go there
	shapeGroups    []*shapeGroup // the same, in order
	limitedPerNode []*shapeGroup // those with pods limited per node
	bound          worthBound    // of the pods of the shape groups
	leading        leadingPods   // of the same
	countability   countability  // of the same
	// requests is what the pods left to place of the shape groups ask for, as it was after that many
	// of shapesLeft.placed; negative before it is computed.
	requests quantity.Vector
	summedAt int
}

// gatherCandidates makes the list of candidates and prices the resources.
func (lr *launcher) gatherCandidates() {
	lr.refreshMinValues()
	lr.gatheredAt = lr.launchCalls
	requests := lr.divide()
	lr.demand.setUseful()
	lr.candidates = lr.candidates[:0]
	for i := lr.pools.next(-1); i >= 0; i = lr.pools.next(i) {
		for _, g := range lr.groupOfferings(i) {
			lr.candidates = lr.addUndominated(lr.candidates, i, g)
		}
	}
	slices.SortStableFunc(lr.candidates, func(x, y *candidate) int {
		return cmp.Or(cmp.Compare(x.price, y.price), -cmp.Compare(len(x.group.shapeGroups), len(y.group.shapeGroups)), cmp.Compare(x.poolIndex, y.poolIndex), cmp.Compare(x.row, y.row))
	})
	lr.candidates = lr.demand.undominated(lr.candidates)
	var cost float64
	cost, lr.prices = lr.priceResources(requests)
	if lr.stopEarly {
		lr.limits.spending.stopIfRestExceeds(cost)
	}
	lr.boundWorth()
	lr.rank()
}

// divide computes again how the pods left to place divide over nodes, and returns their
// requests.
func (lr *launcher) divide() quantity.Vector {
	lr.dividedAt = lr.launchCalls
	return lr.demand.divide(&lr.shapesLeft)
}

// divideAgain computes again how many nodes there must be and what each would hold, and sorts
// the candidates by that.
func (lr *launcher) divideAgain() {
	lr.divide()
	if lr.demand.outgrown() {
		lr.gatherCandidates()
		return
	}
	lr.rank()
}

// offeringGroup is offerings of one pool that suit the same shape groups.
type offeringGroup struct {
	rows  bitset.Set
	suits bitset.Set
}

// groupOfferings groups the offerings of a pool by the shape groups that they suit.
func (lr *launcher) groupOfferings(i int) []offeringGroup {
	pool := lr.pools.all[i]
	rows := pool.available()
	if lr.topology.mustNotOpenDomains {
		rows = rows.And(lr.topology.inCountedDomains(pool))
	}
	if rows.Intersects(pool.closed) {
		rows = rows.Minus(pool.closed)
	}
	groups := []offeringGroup{{rows: rows}}
	for _, alike := range lr.groupByOfferings(i) {
		fits := alike.rows
		for j := range groups {
			g := &groups[j]
			switch {
			case !g.rows.Intersects(fits):
			case g.rows.SubsetOf(fits):
				g.suits.Merge(alike.suits)
			default:
				in := offeringGroup{rows: g.rows.And(fits), suits: g.suits.Or(alike.suits)}
				g.rows = g.rows.Minus(fits)
				groups = append(groups, in)
			}
		}
	}
	return slices.DeleteFunc(groups, func(g offeringGroup) bool { return g.suits.Empty() })
}

// groupByOfferings groups the shape groups that fit the same offerings of a pool: most small
// pods fit all.
func (lr *launcher) groupByOfferings(i int) []offeringGroup {
	var out []offeringGroup
	known := map[string]int{}
	var key []byte
	for at, sg := range lr.shapeGroups {
		if sg.left == 0 {
			continue
		}
		fits := sg.compatible[lr.pools.kind(i)].All
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
func (lr *launcher) addUndominated(out []*candidate, i int, g offeringGroup) []*candidate {
	pool, first := lr.pools.all[i], len(out)
	shared := &candidateGroup{poolKind: lr.pools.kind(i), suits: g.suits, summedAt: -1}
	for at := range g.suits.All() {
		sg := lr.shapeGroups[at]
		shared.shapeGroups = append(shared.shapeGroups, sg)
		if len(sg.limited) > 0 {
			shared.limitedPerNode = append(shared.limitedPerNode, sg)
		}
	}
	most := lr.largestWithMinValues(i, shared)
	for row := range g.rows.All() {
		room := &pool.Allocatable[row]
		if most != nil {
			room = minOf(room, most)
		}
		if lr.demand.dominated(out[first:], room, shared) || lr.limits.nodesAllowed(pool, row) == 0 {
			continue
		}
		out = append(out, &candidate{pool: pool, poolIndex: i, row: row, room: *room, price: lr.priceOf(pool, row), group: shared})
	}
	return out
}

// priceOf is what a node of the offering counts for when candidates are compared: its price in USD/h, or
// one where nodes are to be few.
func (lr *launcher) priceOf(pool *poolState, row int) float64 {
	if lr.launches.policy.fewestNodes {
		return 1
	}
	return pool.Catalog.Offerings[row].Price.USD()
}

// before compares candidates with fillings that are equally good: the cheaper one comes first, then
// the one of lower rank.
func (c *candidate) before(o *candidate) bool {
	return cmp.Or(cmp.Compare(c.pool.Catalog.Offerings[c.row].Price, o.pool.Catalog.Offerings[o.row].Price), cmp.Compare(c.rank, o.rank)) < 0
}

// dominated reports whether one of the candidates has at least that capacity, as far as it is
// of use. It starts with the last, which are larger and most likely do.
func (d *nodeDemand) dominated(by []*candidate, room *quantity.Vector, g *candidateGroup) bool {
	for _, cand := range slices.Backward(by) {
		if d.coversUseful(g, &cand.room, room) {
			return true
		}
	}
	return false
}

// undominated drops candidates for which a cheaper one is at least as good in every way. The
// list is sorted by price.
func (d *nodeDemand) undominated(sorted []*candidate) []*candidate {
	var kept []*candidate
	for _, cand := range sorted {
		if !slices.ContainsFunc(kept, func(k *candidate) bool {
			return d.coversUseful(cand.group, &k.room, &cand.room) && cand.group.suits.SubsetOf(k.group.suits)
		}) {
			kept = append(kept, cand)
		}
	}
	return kept
}

// requestsLeft returns what the pods left to place ask for, after those that were placed.
func (g *candidateGroup) requestsLeft(placed []placedPods) *quantity.Vector {
	if g.summedAt != len(placed) {
		g.sumRequests(placed)
	}
	return &g.requests
}

// sumRequests sums up the requests of the pods left to place.
func (g *candidateGroup) sumRequests(placed []placedPods) {
	if since := len(placed) - g.summedAt; g.summedAt < 0 || since > len(g.shapeGroups) {
		g.requests = quantity.Vector{}
		for _, sg := range g.shapeGroups {
			g.addRequests(sg, sg.left, 1)
		}
	} else {
		for _, p := range placed[g.summedAt:] {
			if g.suits.Has(p.shapeGroup.at) {
				g.addRequests(p.shapeGroup, p.before, -1)
				g.addRequests(p.shapeGroup, p.after, 1)
			}
		}
	}
	g.summedAt = len(placed)
}

// addRequests adds what n pods ask for, or subtracts it. A sum of all groups does not overflow.
func (g *candidateGroup) addRequests(sg *shapeGroup, n int, sign int64) {
	for _, d := range sg.shape.Dims {
		g.requests[d] += sign * min(quantity.Most/int64(len(g.shapeGroups)), sg.shape.Requests[d]*int64(n))
	}
}

// boundWorth finds what the candidates' pods can be worth at most.
func (lr *launcher) boundWorth() {
	for _, cand := range lr.candidates {
		if cand.group.bound.prices == nil {
			cand.group.bound = newWorthBound(&lr.prices.Units, cand.group.shapeGroups)
		}
	}
}

// rank ranks the candidates by what a unit of worth would cost if pods used all of their room, and
// forgets their fillings.
func (lr *launcher) rank() {
	for _, cand := range lr.candidates {
		room := cand.room
		lr.demand.capRoom(cand.group, &room)
		cand.setMinPricePerWorth(lr.prices.Units.Worth(&room) + lr.worthOfNode(cand))
		cand.filled = false
	}
	sortByPricePerWorth(lr.candidates)
	for i, cand := range lr.candidates {
		cand.rank = i
	}
}

// boundPricePerWorth finds the least that a unit of worth can cost at each candidate with the pods left
// to place. boundByLeading may raise that.
func (lr *launcher) boundPricePerWorth() {
	for _, cand := range lr.candidates {
		room, g := cand.room, cand.group
		lr.demand.capRoom(g, &room)
		if g.bound.countsPods() {
			room = covering.Capped(room, g.requestsLeft(lr.shapesLeft.placed))
		}
		cand.roomWorth, cand.boundedByLeading = g.bound.of(&room), false
		cand.setMinPricePerWorth(cand.roomWorth + lr.worthOfNode(cand))
	}
}

// promising yields the candidates with a filling that may cost no more per worth than least, which
// the caller lowers meanwhile: in the order of minPricePerWorth, so that no filling is made in vain.
func (lr *launcher) promising(least *float64) iter.Seq[*candidate] {
	return func(yield func(*candidate) bool) {
		var first *candidate
		for _, cand := range lr.candidates {
			if first != nil && cand.minPricePerWorth >= first.minPricePerWorth {
				continue
			}
			if bound := lr.boundByLeading(cand); first == nil || bound < first.minPricePerWorth {
				first = cand
			}
		}
		if first == nil || !yield(first) {
			return
		}
		others := lr.launches.scratch.promising[:0]
		for _, cand := range lr.candidates {
			if cand != first && cand.minPricePerWorth <= *least && lr.boundByLeading(cand) <= *least {
				others = append(others, cand)
			}
		}
		lr.launches.scratch.promising = others
		sortByPricePerWorth(others)
		for _, cand := range others {
			if cand.minPricePerWorth > *least || !yield(cand) {
				return
			}
		}
	}
}

func (c *candidate) setMinPricePerWorth(worth float64) {
	c.minPricePerWorth = c.price / max(worth, math.SmallestNonzeroFloat64)
}

func sortByPricePerWorth(candidates []*candidate) {
	slices.SortStableFunc(candidates, func(x, y *candidate) int { return cmp.Compare(x.minPricePerWorth, y.minPricePerWorth) })
}

// worthOfNode is the worth of one more node to pods limited per node, besides its capacity.
func (lr *launcher) worthOfNode(cand *candidate) float64 {
	if lr.demand.spreadsOverNodes(cand.group) {
		return lr.prices.Node
	}
	return 0
}

// priceResources returns the prices of one base unit of each resource, and of one more node
// for pods limited per node. The prices are the shadow prices, blended with a little of each
// resource's cheapest price, so that a resource in surplus still counts for something. cost is
// the least that the demand can cost.
func (lr *launcher) priceResources(demand quantity.Vector) (cost float64, prices covering.Prices) {
	const blend = 0.05
	nodeTypes := make([]covering.NodeType, len(lr.candidates))
	for i, cand := range lr.candidates {
		nodeTypes[i] = covering.NodeType{Room: covering.Capped(cand.room, &demand), Price: cand.price}
	}
	cost, prices = covering.Solve(demand, lr.demand.minNodes, nodeTypes)
	for d := range prices.Units {
		if demand[d] == 0 {
			continue
		}
		cheapest := math.Inf(1)
		for _, cand := range lr.candidates {
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
