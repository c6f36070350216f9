package pack

import (
	"cmp"
	"math"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/world"
)

// pile is the parts of one group that ask the same of a machine: one shape, one
// cell. They differ only in neighbours.
type pile struct {
	shape *world.Shape
	cell  *cell
	parts []*part // first with the most to place
	fits  []*world.Fit
	left  int
	// apart is set when some of the pods keep apart, following when some must join
	// others on their machine.
	apart, following bool
	// joined is set while fill has pods of the pile on its machine.
	joined bool
}

// candidate is a row that could be bought next, with the best filling found for it.
type candidate struct {
	stall *stall
	tier  int // index of the stall in the tier
	row   int
	room  quantity.Vector
	price float64
	group *group
	floor float64 // price per value if it were filled to the brim: no filling is better
	// The filling below is valid while every part in it has that many pods left.
	filled  bool
	content []portion
	joint   *joint
	value   float64
	used    quantity.Vector
	least   []int // the variety it needs; see launch
}

// group is what candidates that suit the same piles share.
type group struct {
	suits bitset.Set // indices of the piles that may go there
	piles []*pile    // the same, in order
	// apart are those with pods that keep apart, following those with pods that
	// must join others on the machine.
	apart, following []*pile
	// demand is what is left to place of the piles, as of that many purchases.
	demand    quantity.Vector
	purchases int
}

// portion is n pods of one part on one machine.
type portion struct {
	part *part
	n    int
}

// buyer spends on one tier for one priority group.
type buyer struct {
	*solver
	tier       []*stall
	piles      []*pile
	candidates []*candidate
	lambda     [quantity.Dims]float64 // USD/h per base unit
	mu         float64                // USD/h for a place of its own, to pods that keep apart
	// forced is how many machines there must be at least because pods keep apart,
	// and each what one of them would hold if everything were shared out evenly.
	forced int
	each   quantity.Vector
	// brim is the most of anything that one machine can be of use for, and whole the
	// same for a machine that none of the pods that keep apart can go to.
	brim, whole quantity.Vector
	asked       []int // resources that somebody asks for
	purchases   int
	shared      int // purchases when share was last called
	gathered    int // purchases when gather was last called
	crowded     []apartness
	scratch     filling
}

// apartness counts the pods left to place that share a counter, and how many of
// them one machine may have.
type apartness struct{ pods, most int }

// filling is the machine that fill works on.
type filling struct {
	room   quantity.Vector
	counts []int // by counter
	dirty  []int // counters above zero
	mounts map[world.Mount]bool
	joined []*pile
	order  []*part
	whole  quantity.Vector // room before anything was put there
	least  []int           // the variety it needs; see launch
}

// buy places as many of the parts as the tier's markets can host. Each round
// buys the candidate with the lowest price per value, and as many more of it as
// stay about as good.
func (s *solver) buy(tier []*stall, parts []*part) {
	b := &buyer{solver: s, tier: tier}
	b.pile(parts)
	if len(b.piles) == 0 {
		return
	}
	b.scratch = filling{counts: make([]int, len(s.counters.all)), mounts: map[world.Mount]bool{}}
	b.crowded = make([]apartness, len(s.counters.all))
	b.gather()
	for {
		best := b.best()
		if best == nil && !b.diluted() {
			return
		}
		if best == nil || !b.repeat(best) {
			// Limits or quota ran out under it: rows it had stood for may still be bought.
			b.gather()
		}
	}
}

// shareEvery is after how many purchases it is worked out anew what one machine
// should hold.
const shareEvery = 64

// tolerance is how much worse a machine may be than the one before for the same
// row to be bought again without looking at others.
const tolerance = 1.005

// repeat buys the candidate while that stays about as good. It reports false
// when limits or quota stopped it.
func (b *buyer) repeat(c *candidate) bool {
	cost := c.price / c.value
	for {
		if !b.purchase(c) {
			return false
		}
		if b.purchases-b.shared >= shareEvery {
			b.share()
		}
		b.fill(c)
		if len(c.content) == 0 || c.price/c.value > cost*tolerance {
			return true
		}
	}
}

// pile sorts what is left to place into piles, the largest pods first.
func (b *buyer) pile(parts []*part) {
	type key struct {
		shape *world.Shape
		cell  string
	}
	byKey := map[key]*pile{}
	for _, p := range parts {
		if p.left() == 0 {
			continue
		}
		at := key{shape: p.Shape}
		if p.cell != nil {
			at.cell = p.cell.key
		}
		l := byKey[at]
		if l == nil {
			l = &pile{shape: p.Shape, cell: p.cell}
			hosted := false
			for _, m := range b.tier {
				l.fits = append(l.fits, b.offered(m, p))
				hosted = hosted || !l.fits[len(l.fits)-1].All.Empty()
			}
			byKey[at] = l
			if hosted {
				b.piles = append(b.piles, l)
			}
		}
		p.pile, p.taken = l, 0
		l.parts = append(l.parts, p)
		l.apart = l.apart || p.local.keepsApart()
		l.following = l.following || len(p.local.needs) > 0
		l.left += p.left()
	}
}

// gather lists the rows worth looking at and prices the resources.
func (b *buyer) gather() {
	b.refit()
	b.gathered = b.purchases
	demand := b.apportion()
	b.brim = demand
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
		return cmp.Or(cmp.Compare(x.price, y.price), -cmp.Compare(len(x.group.piles), len(y.group.piles)), cmp.Compare(x.tier, y.tier), cmp.Compare(x.row, y.row))
	})
	b.candidates = b.undominated(b.candidates)
	b.lambda, b.mu = b.worth(demand)
	b.rank()
}

// lot is rows of one market that suit the same piles.
type lot struct {
	rows  bitset.Set
	suits bitset.Set
}

// split sorts the rows of a market by the piles that they suit.
func (b *buyer) split(i int) []lot {
	rows := b.tier[i].onSale()
	if b.confined {
		rows = rows.And(b.known(b.tier[i]))
	}
	lots := []lot{{rows: rows}}
	for _, alike := range b.alike(i) {
		fits := alike.rows
		for j := range lots {
			g := &lots[j]
			switch {
			case !g.rows.Meets(fits):
			case g.rows.Within(fits):
				g.suits.Merge(alike.suits)
			default:
				in := lot{rows: g.rows.And(fits), suits: g.suits.Or(alike.suits)}
				g.rows = g.rows.Minus(fits)
				lots = append(lots, in)
			}
		}
	}
	return slices.DeleteFunc(lots, func(g lot) bool { return g.suits.Empty() })
}

// alike groups the piles that fit the same rows of a market: most small pods fit all.
func (b *buyer) alike(i int) []lot {
	var out []lot
	known := map[string]int{}
	for at, l := range b.piles {
		if l.left == 0 {
			continue
		}
		fits := l.fits[i].All
		b.key = fits.Append(b.key[:0])
		n, ok := known[string(b.key)]
		if !ok {
			n = len(out)
			out, known[string(b.key)] = append(out, lot{rows: fits}), n
		}
		out[n].suits.Put(at)
	}
	return out
}

// addUndominated adds the rows of a lot for which no cheaper one of the lot is at
// least as good in every way.
func (b *buyer) addUndominated(out []*candidate, i int, g lot) []*candidate {
	m, first := b.tier[i], len(out)
	shared := &group{suits: g.suits, purchases: -1}
	for at := range g.suits.All() {
		l := b.piles[at]
		shared.piles = append(shared.piles, l)
		if l.apart {
			shared.apart = append(shared.apart, l)
		}
		if l.following {
			shared.following = append(shared.following, l)
		}
	}
	most := b.ceiling(i, shared)
	for row := range g.rows.All() {
		room := &m.Room[row]
		if most != nil {
			room = lesser(room, most)
		}
		if b.beaten(out[first:], room, shared) || b.affordable(m, row) == 0 {
			continue
		}
		out = append(out, &candidate{stall: m, tier: i, row: row, room: *room, price: m.Catalog.Rows[row].Price.USD(), group: shared})
	}
	return out
}

// beaten reports whether one of the candidates has all the room that is of any use:
// most likely one of the last, which are larger.
func (b *buyer) beaten(by []*candidate, room *quantity.Vector, g *group) bool {
	for _, c := range slices.Backward(by) {
		if b.asLarge(&c.room, room, g) {
			return true
		}
	}
	return false
}

// forces reports whether machines for the group share its pods out, as some of those
// keep apart.
func (b *buyer) forces(g *group) bool { return b.forced > 1 && len(g.apart) > 0 }

// asLarge reports whether a has at least the room of o, as far as it is of use to
// the group.
func (b *buyer) asLarge(a, o *quantity.Vector, g *group) bool {
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

// share works out anew how many machines there must be and what each would hold,
// and ranks the candidates by that.
func (b *buyer) share() {
	demand := b.apportion()
	for d, n := range b.each {
		if n > b.brim[d] && b.brim[d] < demand[d] {
			b.gather()
			return
		}
	}
	b.rank()
}

// apportion works out how many machines there must be and what each would hold.
// It returns what is left to place in all.
func (b *buyer) apportion() quantity.Vector {
	b.forced, b.shared = b.forcedNow(), b.purchases
	var demand, largest quantity.Vector
	for _, l := range b.piles {
		if l.left == 0 {
			continue
		}
		demand = demand.Add(l.shape.Requests.Times(l.left))
		for d, n := range l.shape.Requests {
			largest[d] = max(largest[d], n)
		}
	}
	b.each, b.whole = demand, demand
	b.asked = b.asked[:0]
	for d, n := range demand {
		if n > 0 {
			b.asked = append(b.asked, d)
		}
	}
	if b.forced > 1 {
		for d := range b.each {
			b.each[d] = max(largest[d], demand[d]/int64(b.forced)+largest[d]/2)
		}
	}
	return demand
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
	for _, l := range b.piles {
		if !l.apart {
			continue
		}
		for _, p := range l.parts {
			n := p.left()
			for _, c := range p.local.caps {
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

// undominated drops candidates for which a cheaper one is at least as good in
// every way; the list is sorted by price.
func (b *buyer) undominated(sorted []*candidate) []*candidate {
	var kept []*candidate
	for _, c := range sorted {
		if !slices.ContainsFunc(kept, func(k *candidate) bool {
			return b.asLarge(&k.room, &c.room, c.group) && c.group.suits.Within(k.group.suits)
		}) {
			kept = append(kept, c)
		}
	}
	return kept
}

// worth prices one base unit of each resource and one machine that pods which keep
// apart have to themselves: the shadow prices, blended with a little of each
// resource's cheapest price so that content of a resource which is in surplus still
// counts for something.
func (b *buyer) worth(demand quantity.Vector) (lambda [quantity.Dims]float64, mu float64) {
	const blend = 0.05
	shapes := make([]shape, len(b.candidates))
	for i, c := range b.candidates {
		shapes[i] = shape{capped(c.room, &demand), c.price}
	}
	_, lambda, mu = shadow(demand, b.forced, shapes)
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
	return lambda, mu
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
		if p.part.left() < p.n || len(p.part.local.needs) > 0 {
			return false
		}
	}
	return true
}

// fill packs the piles into one machine of c's row: first each pile's fair share
// of what is left to place, so that no machine uses up the small pods that fill
// the gaps of others, then those that must keep apart, then whatever still fits,
// large pods first.
func (b *buyer) fill(c *candidate) {
	f := &b.scratch
	f.reset(c.room)
	c.filled, c.content, c.joint = true, c.content[:0], c.stall.base
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
	for _, l := range c.group.piles {
		if n := int(float64(l.left) * share); n > 0 {
			b.put(c, l, n)
		}
	}
	for _, l := range c.group.piles {
		b.put(c, l, math.MaxInt32)
	}
	b.putFollowers(c)
	for _, p := range f.order {
		c.content = append(c.content, portion{p, p.taken})
	}
	c.used, c.least = f.whole.Sub(f.room), f.least
	// Worthless but wanted: any price beats no home.
	c.value = max(b.valueOf(&c.used), math.SmallestNonzeroFloat64)
	if slices.ContainsFunc(f.order, func(p *part) bool { return p.local.keepsApart() }) {
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
	for _, l := range f.joined {
		l.joined = false
	}
	f.joined = f.joined[:0]
}

// shareOf is the part of everything left to place that one machine of c could
// hold, were it a liquid.
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

// measure sums what is left to place.
func (g *group) measure(purchases int) {
	g.purchases, g.demand = purchases, quantity.Vector{}
	for _, l := range g.piles {
		for _, d := range l.shape.Dims {
			g.demand[d] += min(quantity.Most/int64(len(g.piles)), l.shape.Requests[d]*int64(l.left))
		}
	}
}

// put adds up to n pods of a pile to the filling, as far as room and neighbours
// let them in.
func (b *buyer) put(c *candidate, l *pile, n int) {
	for _, p := range l.parts {
		if n <= 0 || !b.holds(l) {
			return
		}
		n -= b.putPart(c, l, p, n)
	}
}

// holds reports whether one more pod of the pile fits as far as room goes.
func (b *buyer) holds(l *pile) bool {
	for _, d := range l.shape.Dims {
		if b.scratch.room[d] < l.shape.Requests[d] {
			return false
		}
	}
	return true
}

// putApart adds one of the pods that must keep apart, unless there is one already.
func (b *buyer) putApart(c *candidate, l *pile) {
	for _, p := range l.parts {
		if !b.holds(l) {
			return
		}
		for _, cap := range p.local.caps {
			if cap.own && b.scratch.counts[cap.counter] == 0 && p.left() > 0 && b.putPart(c, l, p, 1) > 0 {
				return
			}
		}
	}
}

// putFollowers looks again at pods that must join others on the machine: those
// may have come after them.
func (b *buyer) putFollowers(c *candidate) {
	for again := len(c.group.following) > 0; again; {
		again = false
		for _, l := range c.group.following {
			for _, p := range l.parts {
				if len(p.local.needs) > 0 && b.putPart(c, l, p, math.MaxInt32) > 0 {
					again = true
				}
			}
		}
	}
}

// putPart adds up to n pods of a part and returns how many it added.
func (b *buyer) putPart(c *candidate, l *pile, p *part, n int) int {
	f := &b.scratch
	n = min(n, p.left()-p.taken, p.fits(&f.room))
	if n <= 0 {
		return 0
	}
	if p.evens() {
		for _, o := range f.order {
			n = min(n, p.ahead(o.work, func(i int) int { return f.counts[i] }))
		}
		if n <= 0 {
			return 0
		}
	}
	if p.local.restricted() {
		n = min(n, p.local.room(b.counters.all, func(i int) int { return f.counts[i] }))
		if n <= 0 {
			return 0
		}
		left, ok := mounted(f.room, p.local.mounts, func(m world.Mount) bool { return f.mounts[m] })
		if n = min(n, p.fits(&left)); !ok || n == 0 {
			return 0
		}
	}
	next := c.joint
	if !l.joined {
		var ok bool
		if next, ok = b.join(c.joint, c.stall, c.row, l.fits[c.tier], p); !ok {
			return 0
		}
	}
	if c.stall.varied() {
		if n = b.diverse(c, next, p, n); n == 0 {
			return 0
		}
	}
	if !l.joined {
		c.joint, l.joined = next, true
		f.joined = append(f.joined, l)
	}
	f.take(p, n)
	return n
}

func (f *filling) take(p *part, n int) {
	if p.taken == 0 {
		f.order = append(f.order, p)
	}
	p.taken += n
	for _, d := range p.Dims {
		f.room[d] -= int64(n) * p.Requests[d]
	}
	for _, m := range p.local.mounts {
		if !f.mounts[m] {
			f.mounts[m] = true
			f.room[m.Dim]--
		}
	}
	for _, i := range p.local.bumps {
		if f.counts[i] == 0 {
			f.dirty = append(f.dirty, i)
		}
		f.counts[i] += n
	}
}

// purchase launches c as often as its filling repeats. It reports false when
// limits or quota stopped it before that.
func (b *buyer) purchase(c *candidate) bool {
	copies := math.MaxInt32
	for _, p := range c.content {
		copies = min(copies, p.part.left()/p.n)
		if len(p.part.local.needs) > 0 {
			copies = min(copies, 1) // whoever was the first anywhere is not the second time
		}
	}
	allowed := b.affordable(c.stall, c.row)
	b.purchases++
	var kinds []*work // copies share it
	for n := range min(copies, allowed) {
		l := &launch{stall: c.stall, row: c.row, free: c.room, joint: c.joint, kinds: kinds, loads: make([]load, 0, len(c.content)), least: c.least}
		if !b.order(l, &c.used) {
			allowed = n
			break
		}
		for _, p := range c.content {
			l.put(b.solver, p.part, p.n)
		}
		kinds = slices.Clip(l.kinds)
		b.launches = append(b.launches, l)
	}
	for _, p := range c.content {
		p.part.pile.recount()
	}
	return copies < allowed
}

// recount drops parts that have nothing left.
func (l *pile) recount() {
	l.left = 0
	kept := l.parts[:0]
	for _, p := range l.parts {
		if n := p.left(); n > 0 {
			l.left += n
			kept = append(kept, p)
		}
	}
	l.parts = kept
}
