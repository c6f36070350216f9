// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/constraint"
)

// NodeIndex groups the nodes by their values of some labels, by their taints and by whether
// they are initialized, and finds the nodes with enough free capacity in each group. It is
// kept current from decision to decision.
type NodeIndex struct {
	Groups []NodeGroup
	Free   *FreeSpace // by slot; clone it before changing it

	hosts []int32     // positions in Snapshot.Nodes by slot: group by group, ascending within each
	slots []int32     // by position
	of    []int32     // group by position
	all   []*NodeInfo // Snapshot.Nodes
	lets  map[*PodShape][]int32
	// spots remembers for a WhatIf which slots may have enough free capacity for a shape; see
	// Find. grown are the slots that had less free capacity before, in the order in which the
	// index learned it.
	spots map[*PodShape]*spots
	grown []int32
	// asked is when the index was asked for last, in Snapshots handed out by the Builder.
	asked int
	// shifted is how many groups do not begin with their First, because a WhatIf closed some
	// nodes.
	shifted int
}

// NodeGroup is nodes that a NodeIndex treats alike: equal in its labels, in taints and in
// whether they are initialized.
type NodeGroup struct {
	First    *NodeInfo // first of the nodes that take pods; nil when none does
	From, To int       // their slots

	like *NodeInfo // the node in slot From
}

// NodeAt returns the position in Snapshot.Nodes of the node in a slot.
func (x *NodeIndex) NodeAt(slot int) int { return int(x.hosts[slot]) }

// SlotOf returns the slot of the node at that position in Snapshot.Nodes.
func (x *NodeIndex) SlotOf(host int) int { return int(x.slots[host]) }

// Accepting lists, by number, the groups whose nodes admit pods of the shape, in the order
// of their first nodes. The index must cover every label that the shape asks for.
func (x *NodeIndex) Accepting(s *PodShape) []int32 {
	out, ok := x.lets[s]
	if !ok {
		for i := range x.Groups {
			if x.Groups[i].like.lets(s) {
				out = append(out, int32(i))
			}
		}
		x.lets[s] = out
	}
	if x.shifted == 0 {
		return out
	}
	return x.inOrder(out)
}

// inOrder leaves out groups all of whose nodes a WhatIf closed, and sorts the others as if
// the closed nodes had never been there.
func (x *NodeIndex) inOrder(groups []int32) []int32 {
	out := make([]int32, 0, len(groups))
	for _, g := range groups {
		if x.Groups[g].First != nil {
			out = append(out, g)
		}
	}
	slices.SortFunc(out, func(a, b int32) int { return cmp.Compare(x.Groups[a].First.at, x.Groups[b].First.at) })
	return out
}

// refresh brings the index up to date with a node whose free capacity has changed or that
// takes pods no more, or again.
func (x *NodeIndex) refresh(h *NodeInfo) {
	slot, g := x.SlotOf(h.at), &x.Groups[x.of[h.at]]
	if h.Index >= 0 {
		x.grow(slot, h)
		x.Free.Set(slot, &h.Free)
		if g.First == nil || h.at < g.First.at {
			x.begin(g, h)
		}
		return
	}
	x.Free.Close(slot)
	if g.First == h {
		x.begin(g, x.open(slot+1, g.To))
	}
}

// Find is FreeSpace.NextWithRoom for pods of the shape. freeSpaces is the index's own FreeSpace, or
// a copy from which planned pods were subtracted. Find remembers which slots have too little
// free capacity for the shape: a search asks for the same shape again and again while most
// nodes are full. The maxima over stretches help little then, because one node of a stretch
// lacks one resource and another node another.
func (x *NodeIndex) Find(s *PodShape, freeSpaces *FreeSpace, from, to int) int {
	in := x.spots[s]
	if in == nil {
		in = &spots{}
		x.spots[s] = in
		x.survey(s, in)
	}
	x.catchUp(s, in)
	for slot := in.slots.Next(from); slot >= 0 && slot < to; slot = in.slots.Next(slot + 1) {
		switch {
		case freeSpaces.holds(0, slot, &s.Requests, s.Dims):
			return slot
		case freeSpaces == x.Free:
			in.slots.Drop(slot)
		}
	}
	return -1
}

// spots are slots that may have enough free capacity for a shape.
type spots struct {
	slots bitset.Set
	seen  int // how much of NodeIndex.grown is taken into account
}

// survey lists the slots with enough free capacity for one pod of the shape.
func (x *NodeIndex) survey(s *PodShape, in *spots) {
	for slot := range x.hosts {
		if x.Free.holds(0, slot, &s.Requests, s.Dims) {
			in.slots.Put(slot)
		}
	}
	in.seen = len(x.grown)
}

// catchUp looks at the slots that have more free capacity than when the shape was asked for
// last.
func (x *NodeIndex) catchUp(s *PodShape, in *spots) {
	for _, slot := range x.grown[in.seen:] {
		if x.Free.holds(0, int(slot), &s.Requests, s.Dims) {
			in.slots.Put(int(slot))
		}
	}
	in.seen = len(x.grown)
}

// mostGrown is how often per node free capacity may grow before the index drops what it
// remembers about shapes: most of these shapes are not asked for again.
const mostGrown = 4

// grow notes that the node's slot is about to have more free capacity.
func (x *NodeIndex) grow(slot int, h *NodeInfo) {
	if len(x.spots) == 0 || x.Free.covers(slot, &h.Free) {
		return
	}
	if len(x.grown) >= mostGrown*len(x.hosts) {
		x.grown = x.grown[:0]
		clear(x.spots)
	}
	x.grown = append(x.grown, int32(slot))
}

// begin makes the node the group's First; nil means that no node of the group takes pods.
func (x *NodeIndex) begin(g *NodeGroup, h *NodeInfo) {
	if g.First != g.like {
		x.shifted--
	}
	if g.First = h; h != g.like {
		x.shifted++
	}
}

// open returns the first node that takes pods in the slots from (inclusive) to (exclusive).
func (x *NodeIndex) open(from, to int) *NodeInfo {
	for slot := from; slot < to; slot++ {
		if h := x.all[x.hosts[slot]]; h.Index >= 0 {
			return h
		}
	}
	return nil
}

// forget drops the slots remembered for a shape.
func (x *NodeIndex) forget(s *PodShape) {
	delete(x.lets, s)
	delete(x.spots, s)
}

// lets is Accepts without requirements on the hostname: a shape that has any is checked for
// taints only.
func (h *NodeInfo) lets(s *PodShape) bool {
	if s.UsesHostname {
		_, ok := tolerates(s.Tolerations, h.Taints, s.AvoidSoft)
		return ok
	}
	return h.Accepts(s)
}

// NodeIndex returns the index over the keys, in any order; the hostname is left out.
func (w *Snapshot) NodeIndex(keys []*constraint.Key) *NodeIndex {
	keys = slices.DeleteFunc(slices.Clone(keys), func(k *constraint.Key) bool { return k.Name == LabelHostname })
	slices.SortFunc(keys, func(a, b *constraint.Key) int { return cmp.Compare(a.Name, b.Name) })
	keys = slices.Compact(keys)
	var name strings.Builder
	for _, k := range keys {
		name.WriteString(k.Name)
		name.WriteByte(0)
	}
	x := w.indexes[name.String()]
	if x == nil {
		x = newIndex(w.Nodes, keys, w.Resources.Len())
		w.indexes[name.String()] = x
	}
	x.asked = w.builder.turn
	return x
}

// idleIndex is the number of Snapshots after which an unused index is dropped: new pods may
// keep asking for other labels while the nodes do not change.
const idleIndex = 64

func (b *Builder) forgetIndexes() {
	b.turn++
	maps.DeleteFunc(b.indexes, func(_ string, x *NodeIndex) bool { return b.turn-x.asked > idleIndex })
}

func newIndex(hosts []*NodeInfo, keys []*constraint.Key, dims int) *NodeIndex {
	x := &NodeIndex{Free: newRooms(len(hosts), dims), hosts: make([]int32, len(hosts)), slots: make([]int32, len(hosts)), of: make([]int32, len(hosts)), all: hosts, lets: map[*PodShape][]int32{}, spots: map[*PodShape]*spots{}}
	groups := map[string]int{}
	var name []byte
	for i, h := range hosts {
		name = h.likeness(name[:0], keys)
		g, ok := groups[string(name)]
		if !ok {
			g = len(x.Groups)
			groups[string(name)] = g
			x.Groups = append(x.Groups, NodeGroup{First: h, like: h})
		}
		x.of[i] = int32(g)
		x.Groups[g].To++
	}
	next := 0
	for g := range x.Groups {
		n := x.Groups[g].To
		x.Groups[g].From, x.Groups[g].To = next, next
		next += n
	}
	for i := range hosts {
		g := &x.Groups[x.of[i]]
		x.hosts[g.To], x.slots[i] = int32(i), int32(g.To)
		g.To++
	}
	for _, h := range hosts {
		x.refresh(h)
	}
	return x
}

// GroupKey is equal for nodes that differ neither in their taints, nor in those labels, nor
// in whether they are initialized.
func (h *NodeInfo) GroupKey(keys []*constraint.Key) string { return string(h.likeness(nil, keys)) }

// likeness appends bytes that are equal for nodes that an index puts into one group.
func (h *NodeInfo) likeness(b []byte, keys []*constraint.Key) []byte {
	b = append(b, 0)
	if h.Initialized {
		b[len(b)-1] = 1
	}
	for _, k := range keys {
		v, ok := h.labels[k]
		if !ok {
			v = -1
		}
		b = binary.AppendVarint(b, int64(v))
	}
	for _, t := range h.Taints {
		for _, part := range []string{t.Key, t.Value, string(t.Effect)} {
			b = binary.AppendUvarint(b, uint64(len(part)))
			b = append(b, part...)
		}
	}
	return b
}
