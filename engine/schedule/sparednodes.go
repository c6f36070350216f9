// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
)

// sparedNodes finds the existing nodes from which no required anti-affinity of the pods there keeps a
// class. Where each node belongs to a tenant whose pods keep off all others, a walk over all nodes for
// each tenant takes the square of their number. Few terms do not select the class, and these lead to the
// nodes that it may use.
type sparedNodes struct {
	snapshot  *cluster.Snapshot
	terms     *antiAffinityTerms
	selectors bitset.Set // IDs of the terms' selectors, as far as some pod on a node has the term
	byTerm    [][]int    // the nodes, by ID of the selector
	onNode    [][]int    // the IDs, by node; nil until collect finds them
	// free are the slots of the nodes without any, by index.
	free map[*cluster.NodeIndex]bitset.Set
	last sparedSlots
}

// sparedSlots are slots of an index that may be spared for a class: pods that are planned later may keep
// it off some of them.
type sparedSlots struct {
	class *cluster.PodClass
	index *cluster.NodeIndex
	slots bitset.Set
	all   bool // too many terms do not select the class: all slots may be
}

// fewSparing is up to how many terms that do not select a class are examined.
const fewSparing = 64

// collect finds the terms of the pods that run.
func (sn *sparedNodes) collect() {
	sn.onNode, sn.free = make([][]int, len(sn.snapshot.Nodes)), map[*cluster.NodeIndex]bitset.Set{}
	for _, t := range sn.snapshot.AntiAffinityTerms {
		id := t.Selector.ID()
		if t.Key.Name != cluster.LabelHostname || !sn.terms.hostnameSelectors.Has(id) {
			continue
		}
		t.EachNode(true, func(node *cluster.NodeInfo, pods, _ int) {
			if pods > 0 && takesPods(node) {
				sn.add(node.Index, id)
			}
		})
	}
}

// add records that a pod on node i has a term with that selector.
func (sn *sparedNodes) add(i, selector int) {
	if sn.onNode == nil || slices.Contains(sn.onNode[i], selector) {
		return
	}
	sn.selectors.Put(selector)
	for len(sn.byTerm) <= selector {
		sn.byTerm = append(sn.byTerm, nil)
	}
	sn.byTerm[selector] = append(sn.byTerm[selector], i)
	sn.onNode[i] = append(sn.onNode[i], selector)
	for x, free := range sn.free {
		free.Drop(x.SlotOf(i))
	}
}

// next returns the first slot from i on that may be spared for the class.
func (sn *sparedNodes) next(c *cluster.PodClass, x *cluster.NodeIndex, i int) int {
	if sn.last.class != c || sn.last.index != x {
		sn.last = sn.find(c, x)
	}
	if sn.last.all {
		return i
	}
	return sn.last.slots.Next(i)
}

// find finds the slots that are spared for the class.
func (sn *sparedNodes) find(c *cluster.PodClass, x *cluster.NodeIndex) sparedSlots {
	if sn.onNode == nil {
		sn.collect()
	}
	out := sparedSlots{class: c, index: x}
	var sparing []int
	for selector := range c.Selectors().Lacking(sn.selectors) {
		if out.all = len(sparing) == fewSparing; out.all {
			return out
		}
		sparing = append(sparing, selector)
	}
	out.slots = sn.freeSlots(x).Clone()
	for _, selector := range sparing {
		for _, i := range sn.byTerm[selector] {
			if !slices.ContainsFunc(sn.onNode[i], c.Selectors().Has) {
				out.slots.Put(x.SlotOf(i))
			}
		}
	}
	return out
}

// freeSlots are the slots of the nodes on which no pod has such a term.
func (sn *sparedNodes) freeSlots(x *cluster.NodeIndex) bitset.Set {
	free, known := sn.free[x]
	if !known {
		free = bitset.Upto(len(sn.snapshot.Nodes))
		for i, terms := range sn.onNode {
			if len(terms) > 0 {
				free.Drop(x.SlotOf(i))
			}
		}
		sn.free[x] = free
	}
	return free
}
