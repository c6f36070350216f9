package schedule

import (
	"math"
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/quantity"
)

// shapeGroup is the parts of one group that ask the same of a machine: one shape, one
// cell. They differ only in neighbours.
type shapeGroup struct {
	shape *cluster.PodShape
	cell  *cell
	parts []*allotment // first with the most to place
	fits  []*cluster.Compatible
	left  int
	// apart is set when some of the pods keep apart, following when some must join
	// others on their machine.
	apart, following bool
	// joined is set while fill has pods of the pile on its machine.
	joined bool
}

// portion is n pods of one part on one machine.
type portion struct {
	part *allotment
	n    int
}

// buyer spends on one tier for one priority group.
type buyer struct {
	*solver
	tier        []*poolState
	shapeGroups []*shapeGroup
	candidates  []*candidate
	lambda      [quantity.Dims]float64 // USD/h per base unit
	mu          float64                // USD/h for a place of its own, to pods that keep apart
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

// buy places as many of the parts as the tier's markets can host. Each round
// buys the candidate with the lowest price per value, and as many more of it as
// stay about as good.
func (s *solver) buy(tier []*poolState, parts []*allotment) {
	if s.overMaxPrice {
		return
	}
	b := &buyer{solver: s, tier: tier}
	b.groupByShape(parts)
	if len(b.shapeGroups) == 0 {
		return
	}
	b.scratch = filling{counts: make([]int, len(s.counters.all)), mounts: map[cluster.Mount]bool{}}
	b.crowded = make([]apartness, len(s.counters.all))
	b.gather()
	for !b.overMaxPrice {
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

// shapeGroup sorts what is left to place into piles, the largest pods first.
func (b *buyer) groupByShape(parts []*allotment) {
	type key struct {
		shape *cluster.PodShape
		cell  string
	}
	byKey := map[key]*shapeGroup{}
	for _, p := range parts {
		if p.left() == 0 {
			continue
		}
		at := key{shape: p.PodShape}
		if p.cell != nil {
			at.cell = p.cell.key
		}
		l := byKey[at]
		if l == nil {
			l = &shapeGroup{shape: p.PodShape, cell: p.cell}
			hosted := false
			for _, m := range b.tier {
				l.fits = append(l.fits, b.offered(m, p))
				hosted = hosted || !l.fits[len(l.fits)-1].All.Empty()
			}
			byKey[at] = l
			if hosted {
				b.shapeGroups = append(b.shapeGroups, l)
			}
		}
		p.shapeGroup, p.taken = l, 0
		l.parts = append(l.parts, p)
		l.apart = l.apart || p.nodeRules.keepsApart()
		l.following = l.following || len(p.nodeRules.needs) > 0
		l.left += p.left()
	}
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
		if p.part.left() < p.n || len(p.part.nodeRules.needs) > 0 {
			return false
		}
	}
	return true
}

// purchase launches c as often as its filling repeats. It reports false when
// limits or quota stopped it before that.
func (b *buyer) purchase(c *candidate) bool {
	copies, pods := math.MaxInt32, 0
	for _, p := range c.content {
		pods += p.n
		copies = min(copies, p.part.left()/p.n)
		if len(p.part.nodeRules.needs) > 0 {
			copies = min(copies, 1) // whoever was the first anywhere is not the second time
		}
	}
	allowed := b.affordable(c.stall, c.row)
	b.purchases++
	var kinds []*podGroup // copies share it
	for n := range min(copies, allowed) {
		l := &launch{pool: c.stall, row: c.row, free: c.room, requirements: c.joint, kinds: kinds, loads: make([]load, 0, len(c.content)), least: c.least}
		if !b.order(l, &c.used) {
			allowed = n
			break
		}
		if len(c.content) > 1 {
			l.pods = make([]cluster.PodRef, 0, pods)
		}
		for _, p := range c.content {
			l.put(b.solver, p.part, p.n)
		}
		kinds = slices.Clip(l.kinds)
		b.launches = append(b.launches, l)
	}
	for _, p := range c.content {
		p.part.shapeGroup.recount()
	}
	return copies < allowed
}

// recount drops parts that have nothing left.
func (l *shapeGroup) recount() {
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
