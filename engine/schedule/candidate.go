// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"cmp"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/quantity"
)

// candidate is an offering that could be launched next, with the best filling found for it.
type candidate struct {
	pool  *poolState
	tier  int // index of the pool in the tier
	row   int
	room  quantity.Vector
	price float64
	group *candidateGroup
	floor float64 // price per value if it were filled completely: no filling costs less per value
	// The filling below is valid while every allotment in it has that many pods left.
	filled         bool
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
	apart, following []*shapeGroup
	// demand is what the pods left to place of the shape groups ask for; computed when the
	// buyer had launched that many nodes.
	demand    quantity.Vector
	purchases int
}

// gather makes the list of candidates and prices the resources.
func (b *buyer) gather() {
	b.refreshMinValues()
	b.gathered = b.purchases
	demand := b.apportion()
	b.brim = b.whole
	if b.forced > 1 {
		for d, n := range b.each {
			b.brim[d] = min(b.brim[d], 2*n)
		}
	}
	b.candidates = b.candidates[:0]
	for i := range b.tier {
		for _, g := range b.split(i) {
			b.candidates = b.addUndominated(b.candidates, i, g)
		}
	}
	slices.SortStableFunc(b.candidates, func(x, y *candidate) int {
		return cmp.Or(cmp.Compare(x.price, y.price), -cmp.Compare(len(x.group.shapeGroups), len(y.group.shapeGroups)), cmp.Compare(x.tier, y.tier), cmp.Compare(x.row, y.row))
	})
	b.candidates = b.undominated(b.candidates)
	var cost float64
	cost, b.prices = b.worth(demand)
	b.foresee(cost)
	b.rank()
}

// foresee stops an attempt that only looks for a cheap plan (sketching) when the rest costs
// more than is left of its maximum price, whatever is launched. That is certain in the last
// tier only: a later tier may have cheaper offerings for the rest.
func (b *buyer) foresee(cost float64) {
	if b.search.sketching && b.last {
		b.limits.price.foresee(cost)
	}
}

// offeringGroup is offerings of one pool that suit the same shape groups.
type offeringGroup struct {
	rows  bitset.Set
	suits bitset.Set
}

// split groups the offerings of a pool by the shape groups that they suit.
func (b *buyer) split(i int) []offeringGroup {
	rows := b.tier[i].available()
	if b.topology.openNoDomain {
		rows = rows.And(b.topology.inCountedDomains(b.tier[i]))
	}
	lots := []offeringGroup{{rows: rows}}
	for _, alike := range b.alike(i) {
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
func (b *buyer) alike(i int) []offeringGroup {
	var out []offeringGroup
	known := map[string]int{}
	var key []byte
	for at, l := range b.shapeGroups {
		if l.left == 0 {
			continue
		}
		fits := l.fits[i].All
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
func (b *buyer) addUndominated(out []*candidate, i int, g offeringGroup) []*candidate {
	pool, first := b.tier[i], len(out)
	shared := &candidateGroup{suits: g.suits, purchases: -1}
	for at := range g.suits.All() {
		l := b.shapeGroups[at]
		shared.shapeGroups = append(shared.shapeGroups, l)
		if l.apart {
			shared.apart = append(shared.apart, l)
		}
		if l.following {
			shared.following = append(shared.following, l)
		}
	}
	most := b.largestWithMinValues(i, shared)
	for row := range g.rows.All() {
		room := &pool.Allocatable[row]
		if most != nil {
			room = minOf(room, most)
		}
		if b.beaten(out[first:], room, shared) || b.limits.affordable(pool, row) == 0 {
			continue
		}
		out = append(out, &candidate{pool: pool, tier: i, row: row, room: *room, price: pool.Catalog.Offerings[row].Price.USD(), group: shared})
	}
	return out
}

// beaten reports whether one of the candidates has at least that capacity, as far as it is of
// use. It starts with the last, which are larger and most likely do.
func (b *buyer) beaten(by []*candidate, room *quantity.Vector, g *candidateGroup) bool {
	for _, cand := range slices.Backward(by) {
		if b.asLarge(&cand.room, room, g) {
			return true
		}
	}
	return false
}

// asLarge reports whether a has at least the capacity of o, as far as it is of use to the
// group.
func (b *buyer) asLarge(a, o *quantity.Vector, g *candidateGroup) bool {
	brim := &b.whole
	if b.forces(g) {
		brim = &b.brim
	}
	for _, d := range b.asked {
		if a[d] < min(o[d], brim[d]) {
			return false
		}
	}
	return true
}

// undominated drops candidates for which a cheaper one is at least as good in every way. The
// list is sorted by price.
func (b *buyer) undominated(sorted []*candidate) []*candidate {
	var kept []*candidate
	for _, cand := range sorted {
		if !slices.ContainsFunc(kept, func(k *candidate) bool {
			return b.asLarge(&k.room, &cand.room, cand.group) && cand.group.suits.Within(k.group.suits)
		}) {
			kept = append(kept, cand)
		}
	}
	return kept
}

// measure sums up the requests of the pods left to place.
func (g *candidateGroup) measure(purchases int) {
	g.purchases, g.demand = purchases, quantity.Vector{}
	for _, l := range g.shapeGroups {
		for _, d := range l.shape.Dims {
			g.demand[d] += min(quantity.Most/int64(len(g.shapeGroups)), l.shape.Requests[d]*int64(l.left))
		}
	}
}
