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

// nodeGroup is all nodes that are alike except for their pods. They have as much cpu and memory,
// so a pod fills the same share of each and kube-scheduler prefers the emptiest. They have the
// same taints and the same values of the labels that pods ask for, so a pod is admitted to all
// or none.
type nodeGroup struct {
	host   *cluster.NodeInfo    // one of the nodes; nil for nodes to be launched:
	market *cluster.PoolCatalog // an offering of this catalog
	row    int

	// perCPU and perMemory are the share of the node that a base unit of each is.
	perCPU, perMemory float64
	slots             []slot // the open nodes, the emptiest first
	seats             int    // the number of all nodes
	values            []int  // by domain count; see domainCount.value
	number            int    // in schedSim.groups
}

// nodeGroupKey is what the nodes of a group share.
type nodeGroupKey struct {
	cpu, memory int64
	look        string               // taints and labels of a node,
	market      *cluster.PoolCatalog // or the offering to be launched
	row         int
}

// slot is the index of a node, how empty it is, and its free cpu and memory, which most pods
// that do not fit lack: most nodes are skipped by their slot alone.
type slot struct {
	at          int
	empty       float64
	cpu, memory int64
}

// groupWith is the group of the node.
func (f *schedSim) groupWith(h *cluster.NodeInfo) *nodeGroup {
	b := f.groupByKey(nodeGroupKey{cpu: h.Allocatable[quantity.NameCPU], memory: h.Allocatable[quantity.NameMemory], look: h.GroupKey(f.asked)})
	b.host = h
	return b
}

// groupFor is the group of nodes of that offering.
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

// share is which share of a node of the group v is: cpu and memory together, up to 2.
func (b *nodeGroup) share(v *quantity.Vector) float64 {
	return float64(v[quantity.CPU])*b.perCPU + float64(v[quantity.Memory])*b.perMemory
}

// before is the order of slots: the emptiest first.
func (s slot) before(o slot) int {
	return cmp.Or(cmp.Compare(o.empty, s.empty), cmp.Compare(s.at, o.at))
}

// place is the index of the slot, or where it should be.
func (b *nodeGroup) place(s slot) int {
	i, _ := slices.BinarySearchFunc(b.slots, s, slot.before)
	return i
}

// put lists an open node.
func (b *nodeGroup) put(s slot) { b.slots = slices.Insert(b.slots, b.place(s), s) }

// take removes a node from the list.
func (b *nodeGroup) take(s slot) {
	i := b.place(s)
	b.slots = slices.Delete(b.slots, i, i+1)
}

// move updates the slot of a node: mostly it moves only a little.
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

// emptiest is how empty the emptiest open node is.
func (b *nodeGroup) emptiest() float64 {
	if len(b.slots) == 0 {
		return math.Inf(-1)
	}
	return b.slots[0].empty
}

// lets reports whether labels and taints admit pods that do not ask for a node's name.
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

// valueOf is the value of a label of an offering to be launched. Only zone and capacity type are
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

// door is which of the first groups admit pods of a shape.
type door struct {
	open []*nodeGroup
	lets []bool // by group
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

// open lists the groups that admit pods of the shape. Shapes that ask for a node's name are
// checked node by node instead.
func (f *schedSim) open(d *door, shape *cluster.PodShape) []*nodeGroup {
	for _, b := range f.groups[len(d.lets):] {
		lets := shape.UsesHostname || b.lets(shape)
		if d.lets = append(d.lets, lets); lets {
			d.open = append(d.open, b)
		}
	}
	return d.open
}

// lets reports whether labels and taints of the node admit the pod.
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
