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

// nodeGroup is all seats that are alike but for who sits there: of as much cpu and memory, so that a pod
// fills the same share of each and kube-scheduler likes the emptiest best; with the same taints and
// values of those labels that pods ask for, so that a pod is let into all or none.
type nodeGroup struct {
	host   *cluster.NodeInfo    // one of them; nil for what is to be bought:
	market *cluster.PoolCatalog // a row of this
	row    int

	// perCPU and perMemory are which share of the machine a base unit of each is.
	perCPU, perMemory float64
	slots             []slot // the open seats, the emptiest first
	seats             int    // all of them
	values            []int  // see tally
	number            int    // in the floor's list
}

// nodeGroupKey is what the seats of a block share.
type nodeGroupKey struct {
	cpu, memory int64
	look        string               // taints and labels of a node,
	market      *cluster.PoolCatalog // or what is bought
	row         int
}

// slot is where a seat is found, how empty it is, and what most pods lack if they have no room
// there: most seats are passed over without a look at them.
type slot struct {
	at          int
	empty       float64
	cpu, memory int64
}

// blockWith is the block of the node.
func (f *schedSim) groupWith(h *cluster.NodeInfo) *nodeGroup {
	b := f.groupByKey(nodeGroupKey{cpu: h.Allocatable[quantity.NameCPU], memory: h.Allocatable[quantity.NameMemory], look: h.GroupKey(f.asked)})
	b.host = h
	return b
}

// blockFor is the block of machines of that row.
func (f *schedSim) groupFor(m *cluster.PoolCatalog, row int) *nodeGroup {
	size := m.Catalog.Allocatable[m.Catalog.Offerings[row].Type]
	b := f.groupByKey(nodeGroupKey{cpu: size[quantity.CPU], memory: size[quantity.Memory], market: m, row: row})
	b.market, b.row = m, row
	return b
}

func (f *schedSim) groupByKey(of nodeGroupKey) *nodeGroup {
	b := f.groupOf[of]
	if b == nil {
		b = &nodeGroup{perCPU: 1 / float64(max(1, of.cpu)), perMemory: 1 / float64(max(1, of.memory)), number: len(f.groups)}
		f.groupOf[of] = b
		f.groups = append(f.groups, b)
	}
	return b
}

// share is which share of a seat of the block those are: cpu and memory together, up to 2.
func (b *nodeGroup) share(v *quantity.Vector) float64 {
	return float64(v[quantity.CPU])*b.perCPU + float64(v[quantity.Memory])*b.perMemory
}

// before is the order in which seats are listed: the emptiest first.
func (s slot) before(o slot) int {
	return cmp.Or(cmp.Compare(o.empty, s.empty), cmp.Compare(s.at, o.at))
}

// place is where the seat is listed, or should be.
func (b *nodeGroup) place(s slot) int {
	i, _ := slices.BinarySearchFunc(b.slots, s, slot.before)
	return i
}

// put lists an open seat.
func (b *nodeGroup) put(s slot) { b.slots = slices.Insert(b.slots, b.place(s), s) }

// take strikes a seat off the list.
func (b *nodeGroup) take(s slot) {
	i := b.place(s)
	b.slots = slices.Delete(b.slots, i, i+1)
}

// move lists a seat anew that was listed otherwise: mostly not far from there.
func (b *nodeGroup) move(was, now slot) {
	i, all := b.place(was), b.slots
	for ; i+1 < len(all) && all[i+1].before(now) < 0; i++ {
		all[i] = all[i+1]
	}
	for ; i > 0 && now.before(all[i-1]) < 0; i-- {
		all[i] = all[i-1]
	}
	all[i] = now
}

// emptiest is how empty the emptiest open seat is.
func (b *nodeGroup) emptiest() float64 {
	if len(b.slots) == 0 {
		return math.Inf(-1)
	}
	return b.slots[0].empty
}

// lets is what labels and taints say to pods that do not ask for a node's name.
func (b *nodeGroup) lets(shape *cluster.PodShape) bool {
	if b.host != nil {
		return b.host.Accepts(shape)
	}
	return slices.ContainsFunc(b.market.Compatible(shape).Admitted, func(rows bitset.Set) bool { return rows.Has(b.row) })
}

// value is the value of a label.
func (b *nodeGroup) value(k *constraint.Key) (int, bool) {
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
	open []*nodeGroup
	lets []bool // by block
}

// doorOf is the door for pods of the shape.
func (f *schedSim) doorOf(shape *cluster.PodShape) *door {
	d := f.doors[shape]
	if d == nil {
		d = &door{}
		f.doors[shape] = d
	}
	return d
}

// open lists the blocks that let pods of the shape in. Those that ask for a node's name ask each
// for themselves.
func (f *schedSim) open(d *door, shape *cluster.PodShape) []*nodeGroup {
	for _, b := range f.groups[len(d.lets):] {
		lets := shape.UsesHostname || b.lets(shape)
		if d.lets = append(d.lets, lets); lets {
			d.open = append(d.open, b)
		}
	}
	return d.open
}

// lets is what labels and taints of the seat say to the pod.
func (f *schedSim) lets(s *simNode, p *evictedPod) bool {
	switch {
	case p.UsesHostname && s.host != nil:
		return s.host.Accepts(p.PodShape)
	case p.UsesHostname:
		return s.group.lets(p.PodShape)
	}
	f.open(p.door, p.PodShape)
	return p.door.lets[s.group.number]
}
