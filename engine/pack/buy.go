package pack

import (
	"cmp"
	"math"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/world"
)

// candidate is a row that could be bought next, with the best filling found for it.
type candidate struct {
	stall *stall
	fits  []*world.Fit // by class, of the stall
	row   int
	room  quantity.Vector
	price float64
	suits bitset.Set // indices of the classes that may go there
	floor float64    // price per value if it were filled to the brim: no filling is better
	// The filling below is valid while every class in it has that many pods left.
	filled  bool
	content []portion
	joint   joint
	value   float64
}

// portion is n pods of one class on one machine.
type portion struct {
	class int // index into the buyer's classes
	n     int
}

// buyer spends on one tier for one priority group.
type buyer struct {
	*solver
	tier       []*stall
	classes    []*work
	fits       [][]*world.Fit // [stall][class]
	candidates []*candidate
	lambda     [quantity.Dims]float64 // USD/h per base unit
	counts     []int                  // scratch of fill: pods by class
}

// buy places as much of the group as the tier's markets can host. Each round
// buys the candidate with the lowest price per value, as many times as its
// filling repeats.
func (s *solver) buy(tier []*stall, group []*work) {
	b := &buyer{solver: s, tier: tier}
	for _, k := range group {
		if k.left() > 0 {
			b.classes = append(b.classes, k)
		}
	}
	for _, m := range tier {
		fits := make([]*world.Fit, len(b.classes))
		for i, k := range b.classes {
			fits[i] = m.Fit(k.Shape, s.w)
		}
		b.fits = append(b.fits, fits)
	}
	b.counts = make([]int, len(b.classes))
	b.gather()
	for {
		best := b.best()
		if best == nil {
			return
		}
		if !b.purchase(best) {
			// Limits or quota ran out under it: rows it had stood for may still be bought.
			b.gather()
		}
	}
}

// gather lists the rows worth looking at and prices the resources.
func (b *buyer) gather() {
	b.candidates = b.candidates[:0]
	for i, m := range b.tier {
		var rows bitset.Set
		for c, k := range b.classes {
			if k.left() > 0 {
				rows.Merge(b.fits[i][c].All)
			}
		}
		for row := range rows.All() {
			if m.Catalog.Rows[row].Unavailable == "" && b.affordable(m, row) > 0 {
				b.candidates = append(b.candidates, b.candidate(i, row))
			}
		}
	}
	slices.SortStableFunc(b.candidates, func(x, y *candidate) int {
		return cmp.Or(cmp.Compare(x.price, y.price), -cmp.Compare(x.suits.Len(), y.suits.Len()))
	})
	b.candidates = undominated(b.candidates, b.dims())
	b.lambda = b.worth()
	for _, c := range b.candidates {
		c.floor = c.price / b.valueOf(&c.room)
	}
	slices.SortStableFunc(b.candidates, func(x, y *candidate) int { return cmp.Compare(x.floor, y.floor) })
}

// valueOf prices the contents of a vector.
func (b *buyer) valueOf(v *quantity.Vector) float64 {
	var value float64
	for d, n := range v {
		value += float64(float64(max(0, n)) * b.lambda[d])
	}
	return value
}

func (b *buyer) candidate(i, row int) *candidate {
	m := b.tier[i]
	c := &candidate{stall: m, fits: b.fits[i], row: row, room: m.Room[row], price: m.Catalog.Rows[row].Price.USD()}
	for class, k := range b.classes {
		if k.left() > 0 && b.fits[i][class].All.Has(row) {
			c.suits.Put(class)
		}
	}
	return c
}

// dims are the resources that the group still asks for.
func (b *buyer) dims() []int {
	var asked [quantity.Dims]bool
	for _, k := range b.classes {
		if k.left() > 0 {
			for _, d := range k.dims {
				asked[d] = true
			}
		}
	}
	var out []int
	for d, ok := range asked {
		if ok {
			out = append(out, d)
		}
	}
	return out
}

// undominated drops candidates for which a cheaper one is at least as good in
// every way; the list is sorted by price. Rows that the launch may still choose
// labels for are kept as they are: suits does not tell all about them.
func undominated(sorted []*candidate, dims []int) []*candidate {
	var kept []*candidate
	for _, c := range sorted {
		if !slices.ContainsFunc(kept, func(k *candidate) bool { return k.dominates(c, dims) }) {
			kept = append(kept, c)
		}
	}
	return kept
}

func (c *candidate) dominates(o *candidate, dims []int) bool {
	for _, d := range dims {
		if c.room[d] < o.room[d] {
			return false
		}
	}
	return o.suits.Minus(c.suits).Empty()
}

// worth prices one base unit of each resource: the shadow prices, blended with a
// little of each resource's cheapest price so that content of a resource which
// is in surplus still counts for something.
func (b *buyer) worth() [quantity.Dims]float64 {
	const blend = 0.05
	var demand quantity.Vector
	for _, k := range b.classes {
		demand = demand.Add(k.Requests.Times(k.left()))
	}
	shapes := make([]shape, len(b.candidates))
	for i, c := range b.candidates {
		shapes[i] = shape{c.room, c.price}
	}
	_, lambda := shadow(demand, shapes)
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
	return lambda
}

// best returns the candidate that costs least per value of what would fill it;
// nil when nothing can be placed any more. Ties go to the larger value (fewer
// machines), then to the order of the catalog.
func (b *buyer) best() *candidate {
	var best *candidate
	var least float64
	for _, c := range b.candidates {
		if best != nil && c.floor > least {
			break // sorted by floor: none of the rest can be cheaper
		}
		if !b.current(c) {
			b.fill(c)
		}
		if len(c.content) == 0 {
			continue
		}
		cost := c.price / c.value
		if best == nil || cost < least || cost == least && c.value > best.value {
			best, least = c, cost
		}
	}
	return best
}

// current reports whether c's filling is what fill would find now.
func (b *buyer) current(c *candidate) bool {
	if !c.filled {
		return false
	}
	for _, p := range c.content {
		if b.classes[p.class].left() < p.n {
			return false
		}
	}
	return true
}

// fill packs the classes into one machine of c's row: first each class's fair
// share of what is left to place, so that no machine uses up the small pods that
// fill the gaps of others, then whatever still fits, large pods first.
func (b *buyer) fill(c *candidate) {
	c.filled, c.content, c.joint = true, c.content[:0], newJoint(c.stall)
	clear(b.counts)
	room := c.room
	share := b.share(c)
	for class := range c.suits.All() {
		k := b.classes[class]
		b.put(c, &room, class, min(k.fits(&room), int(float64(k.left())*share)))
	}
	for class := range c.suits.All() {
		k := b.classes[class]
		b.put(c, &room, class, min(k.fits(&room), k.left()-b.counts[class]))
	}
	for class, n := range b.counts {
		if n > 0 {
			c.content = append(c.content, portion{class, n})
		}
	}
	used := c.room.Sub(room)
	// Worthless but wanted: any price beats no home.
	c.value = max(b.valueOf(&used), math.SmallestNonzeroFloat64)
}

// share is the part of everything left to place that one machine of c could
// hold, were it a liquid.
func (b *buyer) share(c *candidate) float64 {
	var demand quantity.Vector
	for class := range c.suits.All() {
		k := b.classes[class]
		demand = demand.Add(k.Requests.Times(k.left()))
	}
	share := 1.0
	for d, n := range demand {
		if n > 0 {
			share = min(share, float64(max(0, c.room[d]))/float64(n))
		}
	}
	return share
}

// put adds n pods of a class to the filling, unless the class cannot share the
// machine with those already there.
func (b *buyer) put(c *candidate, room *quantity.Vector, class, n int) {
	if n <= 0 {
		return
	}
	k := b.classes[class]
	if b.counts[class] == 0 {
		next, ok := c.joint.add(c.stall, c.row, c.fits[class], k)
		if !ok {
			return
		}
		c.joint = next
	}
	b.counts[class] += n
	for _, d := range k.dims {
		room[d] -= int64(n) * k.Requests[d]
	}
}

// fits is Vector.Fits looking only at the resources the class asks for.
func (k *work) fits(room *quantity.Vector) int {
	most := int64(math.MaxInt32)
	for _, d := range k.dims {
		most = min(most, room[d]/k.Requests[d])
	}
	return int(max(0, most))
}

// purchase launches c as often as its filling repeats. It reports false when
// limits or quota stopped it before that.
func (b *buyer) purchase(c *candidate) bool {
	copies := math.MaxInt32
	for _, p := range c.content {
		copies = min(copies, b.classes[p.class].left()/p.n)
	}
	allowed := b.affordable(c.stall, c.row)
	shared := &lot{}
	for range min(copies, allowed) {
		l := &launch{stall: c.stall, row: c.row, free: c.room, joint: c.joint, lot: shared}
		for _, p := range c.content {
			l.put(b.classes[p.class], p.n)
		}
		b.reserve(c.stall, c.row)
		b.launches = append(b.launches, l)
	}
	return copies < allowed
}
