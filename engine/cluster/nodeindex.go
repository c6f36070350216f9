// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/constraint"
)

// NodeIndex groups the nodes that take pods by their values of some labels, by their taints
// and by whether they are initialized, and finds the nodes with enough free capacity in each
// group. A slot is the place of a node in the index: group by group, and within a group in the
// order of Snapshot.Nodes. An index is kept current from decision to decision.
type NodeIndex struct {
	Groups []NodeGroup
	Free   *FreeCapacity // by slot; clone it before changing it

	nodes     []*NodeInfo // Snapshot.Nodes
	positions []int32     // in nodes, by slot
	slots     []int32     // by position in nodes
	groups    []int32     // by position in nodes
	accepting map[*PodShape][]int32
	// fitting remembers for a WhatIf which slots may have enough free capacity for a shape; see
	// Find. gained are the slots that got more free capacity since, in the order in which they
	// did.
	fitting map[*PodShape]*fittingSlots
	gained  []int32
	// lastUsed is the number of the Snapshot that used the index last.
	lastUsed int
	// groupsWithOtherFirst is in how many groups First is not the node in the first slot,
	// because a WhatIf made nodes take no pods.
	groupsWithOtherFirst int
}

// NodeGroup is nodes that a NodeIndex treats alike: equal in its labels, in taints and in
// whether they are initialized.
type NodeGroup struct {
	First    *NodeInfo // first of the nodes that take pods; nil when none does
	From, To int       // their slots

	example *NodeInfo // the node in slot From
}

// PositionOf returns the position in Snapshot.Nodes of the node in a slot.
func (x *NodeIndex) PositionOf(slot int) int { return int(x.positions[slot]) }

// SlotOf returns the slot of the node at that position in Snapshot.Nodes.
func (x *NodeIndex) SlotOf(position int) int { return int(x.slots[position]) }

// Accepting lists, by number, the groups whose nodes admit pods of the shape, in the order
// of their first nodes. The index must cover every label that the shape asks for.
func (x *NodeIndex) Accepting(s *PodShape) []int32 {
	out, ok := x.accepting[s]
	if !ok {
		for i := range x.Groups {
			if x.Groups[i].example.acceptsOnAnyHostname(s) {
				out = append(out, int32(i))
			}
		}
		x.accepting[s] = out
	}
	if x.groupsWithOtherFirst == 0 {
		return out
	}
	return x.withNodesTakingPods(out)
}

// withNodesTakingPods leaves out groups none of whose nodes takes pods in a WhatIf, and sorts the
// others as if the nodes that take none had never been there.
func (x *NodeIndex) withNodesTakingPods(groups []int32) []int32 {
	out := make([]int32, 0, len(groups))
	for _, g := range groups {
		if x.Groups[g].First != nil {
			out = append(out, g)
		}
	}
	slices.SortFunc(out, func(a, b int32) int { return cmp.Compare(x.Groups[a].First.listIndex, x.Groups[b].First.listIndex) })
	return out
}

// refresh brings the index up to date with a node whose free capacity has changed or that
// takes pods no more, or again.
func (x *NodeIndex) refresh(node *NodeInfo) {
	slot, g := x.SlotOf(node.listIndex), &x.Groups[x.groups[node.listIndex]]
	if node.Index >= 0 {
		x.noteGain(slot, node)
		x.Free.Set(slot, &node.Free)
		if g.First == nil || node.listIndex < g.First.listIndex {
			x.setFirst(g, node)
		}
		return
	}
	x.Free.Close(slot)
	if g.First == node {
		x.setFirst(g, x.firstTakingPods(slot+1, g.To))
	}
}

// Find is FreeCapacity.NextFitting for pods of the shape. free is the index's own FreeCapacity, or
// a copy from which planned pods were subtracted. Find remembers which slots have too little
// free capacity for the shape: a search asks for the same shape again and again while most
// nodes are full. The maxima over stretches help little then, because one node of a stretch
// lacks one resource and another node another.
func (x *NodeIndex) Find(s *PodShape, free *FreeCapacity, from, to int) int {
	fitting := x.fitting[s]
	if fitting == nil {
		fitting = &fittingSlots{}
		x.fitting[s] = fitting
		x.listFitting(s, fitting)
	}
	x.addGained(s, fitting)
	for slot := fitting.slots.Next(from); slot >= 0 && slot < to; slot = fitting.slots.Next(slot + 1) {
		switch {
		case free.holds(0, slot, &s.Requests, s.Dims):
			return slot
		case free == x.Free:
			fitting.slots.Drop(slot)
		}
	}
	return -1
}

// fittingSlots are slots that may have enough free capacity for a shape.
type fittingSlots struct {
	slots bitset.Set
	seen  int // how many of NodeIndex.gained are taken into account
}

// listFitting lists the slots with enough free capacity for one pod of the shape.
func (x *NodeIndex) listFitting(s *PodShape, fitting *fittingSlots) {
	for slot := range x.positions {
		if x.Free.holds(0, slot, &s.Requests, s.Dims) {
			fitting.slots.Put(slot)
		}
	}
	fitting.seen = len(x.gained)
}

// addGained adds the slots that got enough free capacity since the shape was looked for last.
func (x *NodeIndex) addGained(s *PodShape, fitting *fittingSlots) {
	for _, slot := range x.gained[fitting.seen:] {
		if x.Free.holds(0, int(slot), &s.Requests, s.Dims) {
			fitting.slots.Put(int(slot))
		}
	}
	fitting.seen = len(x.gained)
}

// maxGainsPerNode is how often per node free capacity may grow before the index drops what it
// remembers about shapes: most of these shapes are not looked for again.
const maxGainsPerNode = 4

// noteGain notes that the node's slot is about to have more free capacity.
func (x *NodeIndex) noteGain(slot int, node *NodeInfo) {
	if len(x.fitting) == 0 || x.Free.holdsAll(slot, &node.Free) {
		return
	}
	if len(x.gained) >= maxGainsPerNode*len(x.positions) {
		x.gained = x.gained[:0]
		clear(x.fitting)
	}
	x.gained = append(x.gained, int32(slot))
}

// setFirst makes the node the group's First; nil means that no node of the group takes pods.
func (x *NodeIndex) setFirst(g *NodeGroup, node *NodeInfo) {
	if g.First != g.example {
		x.groupsWithOtherFirst--
	}
	if g.First = node; node != g.example {
		x.groupsWithOtherFirst++
	}
}

// firstTakingPods returns the first node that takes pods in the slots from (inclusive) to
// (exclusive).
func (x *NodeIndex) firstTakingPods(from, to int) *NodeInfo {
	for slot := from; slot < to; slot++ {
		if node := x.nodes[x.positions[slot]]; node.Index >= 0 {
			return node
		}
	}
	return nil
}

// dropShape drops what is remembered for a shape.
func (x *NodeIndex) dropShape(s *PodShape) {
	delete(x.accepting, s)
	delete(x.fitting, s)
}

func newNodeIndex(nodes []*NodeInfo, keys []*constraint.Key, dims int) *NodeIndex {
	x := &NodeIndex{
		Free: NewFreeCapacity(len(nodes), dims), nodes: nodes,
		positions: make([]int32, len(nodes)), slots: make([]int32, len(nodes)), groups: make([]int32, len(nodes)),
		accepting: map[*PodShape][]int32{}, fitting: map[*PodShape]*fittingSlots{},
	}
	numbers := map[string]int{} // of groups
	var key []byte
	for i, node := range nodes {
		key = node.appendGroupKey(key[:0], keys)
		g, ok := numbers[string(key)]
		if !ok {
			g = len(x.Groups)
			numbers[string(key)] = g
			x.Groups = append(x.Groups, NodeGroup{First: node, example: node})
		}
		x.groups[i] = int32(g)
		x.Groups[g].To++
	}
	next := 0
	for g := range x.Groups {
		n := x.Groups[g].To
		x.Groups[g].From, x.Groups[g].To = next, next
		next += n
	}
	for i := range nodes {
		g := &x.Groups[x.groups[i]]
		x.positions[g.To], x.slots[i] = int32(i), int32(g.To)
		g.To++
	}
	for _, node := range nodes {
		x.refresh(node)
	}
	return x
}

// GroupKey is equal for nodes that differ neither in their taints, nor in those labels, nor
// in whether they are initialized.
func (node *NodeInfo) GroupKey(keys []*constraint.Key) string {
	return string(node.appendGroupKey(nil, keys))
}

func (node *NodeInfo) appendGroupKey(b []byte, keys []*constraint.Key) []byte {
	b = append(b, 0)
	if node.Initialized {
		b[len(b)-1] = 1
	}
	for _, k := range keys {
		v, ok := node.labels[k]
		if !ok {
			v = -1
		}
		b = binary.AppendVarint(b, int64(v))
	}
	for _, t := range node.Taints {
		for _, part := range []string{t.Key, t.Value, string(t.Effect)} {
			b = binary.AppendUvarint(b, uint64(len(part)))
			b = append(b, part...)
		}
	}
	return b
}
