package disrupt

import (
	"cmp"
	"math"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/quantity"
)

// block is all seats that are alike but for who sits there: of as much cpu and memory, so that a pod
// fills the same share of each and kube-scheduler likes the emptiest best; with the same taints and
// values of those labels that pods ask for, so that a pod is let into all or none.
type block struct {
	host   *cluster.NodeInfo    // one of them; nil for what is to be bought:
	market *cluster.PoolCatalog // a row of this
	row    int

	// perCPU and perMemory are which share of the machine a base unit of each is.
	perCPU, perMemory float64
	stands            []stand // the open seats, the emptiest first
	seats             int     // all of them
	values            []int   // see tally
	number            int     // in the floor's list
}

// likeness is what the seats of a block share.
type likeness struct {
	cpu, memory int64
	look        string               // taints and labels of a node,
	market      *cluster.PoolCatalog // or what is bought
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
func (f *floor) blockWith(h *cluster.NodeInfo) *block {
	b := f.block(likeness{cpu: h.Allocatable[quantity.NameCPU], memory: h.Allocatable[quantity.NameMemory], look: h.GroupKey(f.asked)})
	b.host = h
	return b
}

// blockFor is the block of machines of that row.
func (f *floor) blockFor(m *cluster.PoolCatalog, row int) *block {
	size := m.Catalog.Allocatable[m.Catalog.Offerings[row].Type]
	b := f.block(likeness{cpu: size[quantity.CPU], memory: size[quantity.Memory], market: m, row: row})
	b.market, b.row = m, row
	return b
}

func (f *floor) block(of likeness) *block {
	b := f.blockOf[of]
	if b == nil {
		b = &block{perCPU: 1 / float64(max(1, of.cpu)), perMemory: 1 / float64(max(1, of.memory)), number: len(f.blocks)}
		f.blockOf[of] = b
		f.blocks = append(f.blocks, b)
	}
	return b
}

// share is which share of a seat of the block those are: cpu and memory together, up to 2.
func (b *block) share(v *quantity.Vector) float64 {
	return float64(v[quantity.CPU])*b.perCPU + float64(v[quantity.Memory])*b.perMemory
}

// before is the order in which seats are listed: the emptiest first.
func (s stand) before(o stand) int {
	return cmp.Or(cmp.Compare(o.empty, s.empty), cmp.Compare(s.at, o.at))
}

// place is where the seat is listed, or should be.
func (b *block) place(s stand) int {
	i, _ := slices.BinarySearchFunc(b.stands, s, stand.before)
	return i
}

// put lists an open seat.
func (b *block) put(s stand) { b.stands = slices.Insert(b.stands, b.place(s), s) }

// take strikes a seat off the list.
func (b *block) take(s stand) {
	i := b.place(s)
	b.stands = slices.Delete(b.stands, i, i+1)
}

// move lists a seat anew that was listed otherwise: mostly not far from there.
func (b *block) move(was, now stand) {
	i, all := b.place(was), b.stands
	for ; i+1 < len(all) && all[i+1].before(now) < 0; i++ {
		all[i] = all[i+1]
	}
	for ; i > 0 && now.before(all[i-1]) < 0; i-- {
		all[i] = all[i-1]
	}
	all[i] = now
}

// emptiest is how empty the emptiest open seat is.
func (b *block) emptiest() float64 {
	if len(b.stands) == 0 {
		return math.Inf(-1)
	}
	return b.stands[0].empty
}

// lets is what labels and taints say to pods that do not ask for a node's name.
func (b *block) lets(shape *cluster.PodShape) bool {
	if b.host != nil {
		return b.host.Accepts(shape)
	}
	return slices.ContainsFunc(b.market.Compatible(shape).Admitted, func(rows bitset.Set) bool { return rows.Has(b.row) })
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
func valueOf(m *cluster.PoolCatalog, row int, k *constraint.Key) (int, bool) {
	switch o := &m.Catalog.Offerings[row]; k.Name {
	case cluster.LabelZone:
		return k.ID(o.Zone), true
	case cluster.LabelCapacityType:
		return k.ID(o.CapacityType), true
	}
	return 0, false
}

// door is which blocks let pods of a shape in, of the first so many.
type door struct {
	open []*block
	lets []bool // by block
}

// doorOf is the door for pods of the shape.
func (f *floor) doorOf(shape *cluster.PodShape) *door {
	d := f.doors[shape]
	if d == nil {
		d = &door{}
		f.doors[shape] = d
	}
	return d
}

// open lists the blocks that let pods of the shape in. Those that ask for a node's name ask each
// for themselves.
func (f *floor) open(d *door, shape *cluster.PodShape) []*block {
	for _, b := range f.blocks[len(d.lets):] {
		lets := shape.UsesHostname || b.lets(shape)
		if d.lets = append(d.lets, lets); lets {
			d.open = append(d.open, b)
		}
	}
	return d.open
}

// lets is what labels and taints of the seat say to the pod.
func (f *floor) lets(s *seat, p *evicted) bool {
	switch {
	case p.UsesHostname && s.host != nil:
		return s.host.Accepts(p.PodShape)
	case p.UsesHostname:
		return s.block.lets(p.PodShape)
	}
	f.open(p.door, p.PodShape)
	return p.door.lets[s.block.number]
}
