package disrupt

import (
	"math"
	"math/bits"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/world"
)

// shelves is how finely seats are told apart by how empty they are.
const shelves = 256

// block is all seats that are alike but for who sits there: of as much cpu and memory, so that a pod
// fills the same share of each and kube-scheduler likes the emptiest best; with the same taints and
// values of those labels that pods ask for, so that a pod is let into all or none.
type block struct {
	host   *world.Host   // one of them; nil for what is to be bought:
	market *world.Market // a row of this
	row    int

	// perCPU and perMemory are which share of the machine a base unit of each is.
	perCPU, perMemory float64
	// shelves hold the open seats by how empty they are, used are those that have any.
	shelves [shelves][]stand
	used    [shelves / 64]uint64
	values  []int // see tally
}

// likeness is what the seats of a block share.
type likeness struct {
	cpu, memory int64
	look        string        // taints and labels of a node,
	market      *world.Market // or what is bought
	row         int
}

// stand is where a seat is found, how empty it is, and what most pods lack if they have no room
// there: most seats are passed over without a look at them.
type stand struct {
	at          int
	empty       float64
	cpu, memory int64
}

// blockWith is the block of the node.
func (f *floor) blockWith(h *world.Host) *block {
	b := f.block(likeness{cpu: h.Allocatable[quantity.NameCPU], memory: h.Allocatable[quantity.NameMemory], look: h.Likeness(f.asked)})
	b.host = h
	return b
}

// blockFor is the block of machines of that row.
func (f *floor) blockFor(m *world.Market, row int) *block {
	size := m.Catalog.Room[m.Catalog.Rows[row].Type]
	b := f.block(likeness{cpu: size[quantity.CPU], memory: size[quantity.Memory], market: m, row: row})
	b.market, b.row = m, row
	return b
}

func (f *floor) block(of likeness) *block {
	b := f.blockOf[of]
	if b == nil {
		b = &block{perCPU: 1 / float64(max(1, of.cpu)), perMemory: 1 / float64(max(1, of.memory))}
		f.blockOf[of] = b
		f.blocks = append(f.blocks, b)
	}
	return b
}

// share is which share of a seat of the block those are: cpu and memory together, up to 2.
func (b *block) share(v *quantity.Vector) float64 {
	return float64(v[quantity.CPU])*b.perCPU + float64(v[quantity.Memory])*b.perMemory
}

// put puts a seat with so much free onto the shelf where it belongs.
func (b *block) put(at int, free *quantity.Vector) (shelf, place int) {
	empty := b.share(free)
	shelf = max(0, min(shelves-1, int(empty*(shelves/2))))
	place = len(b.shelves[shelf])
	b.shelves[shelf] = append(b.shelves[shelf], stand{at, empty, free[quantity.CPU], free[quantity.Memory]})
	b.used[shelf/64] |= 1 << (shelf % 64)
	return shelf, place
}

// take takes a seat off its shelf, and returns which one has its place now.
func (b *block) take(shelf, place int) (moved int) {
	all := b.shelves[shelf]
	last := all[len(all)-1]
	all[place] = last
	b.shelves[shelf] = all[:len(all)-1]
	if len(all) == 1 {
		b.used[shelf/64] &^= 1 << (shelf % 64)
	}
	return last.at
}

// top is the shelf with the emptiest seats; negative when none is open.
func (b *block) top() int { return b.below(shelves) }

// below is the next shelf below that one that has any seats; negative when there is none.
func (b *block) below(shelf int) int {
	for word := (shelf - 1) >> 6; word >= 0; word-- {
		w := b.used[word]
		if word == shelf>>6 {
			w &= 1<<(shelf%64) - 1
		}
		if w != 0 {
			return word*64 + bits.Len64(w) - 1
		}
	}
	return -1
}

// emptiest bounds how empty the emptiest seat is.
func (b *block) emptiest() float64 { return ceilingOf(b.top()) }

// ceilingOf bounds how empty seats on that shelf are.
func ceilingOf(shelf int) float64 {
	switch shelf {
	case -1:
		return math.Inf(-1)
	case shelves - 1:
		return math.Inf(1)
	}
	return float64(shelf+1) / (shelves / 2)
}

// lets is what labels and taints say to pods that do not ask for a node's name.
func (b *block) lets(shape *world.Shape) bool {
	if b.host != nil {
		return b.host.Accepts(shape)
	}
	return slices.ContainsFunc(b.market.Fit(shape).Admitted, func(rows bitset.Set) bool { return rows.Has(b.row) })
}

// lets is what labels and taints say.
func (s *seat) lets(shape *world.Shape) bool {
	if s.host != nil {
		return s.host.Accepts(shape)
	}
	return s.block.lets(shape)
}

// value is the value of a label.
func (b *block) value(k *constraint.Key) (int, bool) {
	if b.host != nil {
		return b.host.Value(k)
	}
	return valueOf(b.market, b.row, k)
}

// valueOf is the value of a label of what is to be bought. Only the zone and how it is bought are
// certain.
func valueOf(m *world.Market, row int, k *constraint.Key) (int, bool) {
	switch o := &m.Catalog.Rows[row]; k.Name {
	case world.LabelZone:
		return k.ID(o.Zone), true
	case world.LabelCapacityType:
		return k.ID(o.CapacityType), true
	}
	return 0, false
}

// door is which blocks let pods of a shape in, of the first so many.
type door struct {
	open []*block
	seen int
}

// open lists the blocks that let pods of the shape in. Those that ask for a node's name ask each
// for themselves.
func (f *floor) open(shape *world.Shape) []*block {
	d := f.doors[shape]
	if d == nil {
		d = &door{}
		f.doors[shape] = d
	}
	for _, b := range f.blocks[d.seen:] {
		if shape.Named || b.lets(shape) {
			d.open = append(d.open, b)
		}
	}
	d.seen = len(f.blocks)
	return d.open
}
