// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"maps"
	"slices"
)

// WhatIf supposes changes to a Snapshot, so that decisions can be computed on the result,
// and takes the changes back afterwards. Nothing is copied: nodes, classes and indexes are
// changed in place, and every change is recorded. So while a WhatIf lasts there must be no
// other one, the Snapshot must be read only through it, and its Builder must not change.
//
// The pods to be placed are only those of removed nodes (see RemoveNodes). Pods that were
// pending before are left out: another decision is about them.
type WhatIf struct {
	snapshot Snapshot
	undo     []func()
	placed   map[*NodeInfo][]*pod // pods that Place put on the node
	tracked  trackedCounts
	memo     any // see Snapshot.Memo
	// changed is set by End: the nodes that change back. Nothing reads the indexes then, and each of
	// these nodes is refreshed there once.
	changed map[*NodeInfo]bool
}

// Savepoint is a point in a WhatIf to which RollbackTo returns.
type Savepoint int

// WhatIf begins a WhatIf. It must be ended with End.
func (s *Snapshot) WhatIf() *WhatIf {
	w := &WhatIf{snapshot: *s, placed: map[*NodeInfo][]*pod{}, tracked: trackedCounts{pods: map[*PodClass][]*PodCounts{}}}
	w.snapshot.whatIf = w
	w.snapshot.Classes, w.snapshot.QuotaLeft, w.snapshot.NodesTakingNoPods = nil, maps.Clone(s.QuotaLeft), slices.Clip(s.NodesTakingNoPods)
	return w
}

// Snapshot is the Snapshot as supposed so far. The pointer never changes, and the Snapshot is
// current after every change. It must not be used once the WhatIf has ended.
func (w *WhatIf) Snapshot() *Snapshot { return &w.snapshot }

// Savepoint returns the current point of the WhatIf.
func (w *WhatIf) Savepoint() Savepoint { return Savepoint(len(w.undo)) }

// RollbackTo takes back everything supposed since the Savepoint.
func (w *WhatIf) RollbackTo(m Savepoint) {
	for len(w.undo) > int(m) {
		last := len(w.undo) - 1
		w.undo[last]()
		w.undo[last] = nil
		w.undo = w.undo[:last]
	}
}

// End takes everything back. The WhatIf must not be used any more.
func (w *WhatIf) End() {
	w.changed, w.tracked = map[*NodeInfo]bool{}, trackedCounts{} // nobody reads the counts any more
	w.RollbackTo(0)
	for _, node := range w.snapshot.Nodes {
		if w.changed[node] {
			w.snapshot.nodeStore.indexes.refresh(node)
		}
	}
}

// onRollback records how to take back a change.
func (w *WhatIf) onRollback(undo func()) { w.undo = append(w.undo, undo) }

// RemoveNodes supposes that the nodes are removed: they take no pods, their pods count nowhere,
// and their reschedulable pods are to be placed. Removing a node twice changes nothing.
//
// Their labels still count. While a node is drained, kube-scheduler still sees its zone, which
// has none of the pods, and binds pods with a spread constraint nowhere else. So a plan that
// ignored the zone would be undone at once, by the launch of nodes for these pods.
func (w *WhatIf) RemoveNodes(nodes ...*NodeInfo) {
	var all []classPods
	for _, node := range nodes {
		if node.removed {
			continue
		}
		wasMarked := node.MarkedForDeletion
		w.setState(node, nodeState{markedForDeletion: true, takesNoPods: node.TakesNoPods, removed: true, index: -1})
		if wasMarked || !node.TakesNoPods {
			w.listAsTakingNoPods(node)
		}
		if of := w.podsToPlace(node, wasMarked); all == nil {
			all = slices.Clip(of)
		} else {
			all = append(all, of...)
		}
	}
	if len(all) > 0 {
		w.addUnplaced(all)
	}
}

// StopTakingPods supposes that the node takes no more pods. Its pods and its labels still count.
func (w *WhatIf) StopTakingPods(node *NodeInfo) {
	if node.MarkedForDeletion || node.TakesNoPods {
		return
	}
	w.setState(node, nodeState{markedForDeletion: node.MarkedForDeletion, takesNoPods: true, removed: node.removed, index: -1})
	w.listAsTakingNoPods(node)
}

// TakePodsAgain supposes that nodes which StopTakingPods stopped take pods again. It skips nodes
// that took no pods before the WhatIf, and nodes that are marked for deletion.
func (w *WhatIf) TakePodsAgain(nodes ...*NodeInfo) {
	takesAgain := make(map[*NodeInfo]bool, len(nodes))
	for _, node := range nodes {
		if node.listIndex >= 0 && node.Index < 0 && !node.MarkedForDeletion {
			takesAgain[node] = true
			w.setState(node, nodeState{index: node.listIndex})
		}
	}
	if len(takesAgain) == 0 {
		return
	}
	before := w.snapshot.NodesTakingNoPods
	w.onRollback(func() { w.snapshot.NodesTakingNoPods = before })
	w.snapshot.NodesTakingNoPods = slices.DeleteFunc(slices.Clone(before), func(node *NodeInfo) bool { return takesAgain[node] })
}

// nodeState is whether a node takes pods, and why not.
type nodeState struct {
	markedForDeletion, takesNoPods, removed bool
	index                                   int
}

func (w *WhatIf) setState(node *NodeInfo, next nodeState) {
	before := nodeState{node.MarkedForDeletion, node.TakesNoPods, node.removed, node.Index}
	w.onRollback(func() { w.applyState(node, before) })
	w.applyState(node, next)
}

func (w *WhatIf) applyState(node *NodeInfo, s nodeState) {
	pods, labels := podsCount(node), labelsCount(node)
	node.MarkedForDeletion, node.TakesNoPods, node.removed, node.Index = s.markedForDeletion, s.takesNoPods, s.removed, s.index
	if now := podsCount(node); now != pods {
		w.tracked.addPods(node, node.PodsByClass(), sign(now))
	}
	if now := labelsCount(node); now != labels {
		w.tracked.addLabels(node, sign(now))
	}
	w.refreshIndexes(node)
}

// sign is 1 for what counts from now on, and -1 for what does not count any more.
func sign(counts bool) int {
	if counts {
		return 1
	}
	return -1
}

func (w *WhatIf) listAsTakingNoPods(node *NodeInfo) {
	n := len(w.snapshot.NodesTakingNoPods)
	w.onRollback(func() { w.snapshot.NodesTakingNoPods = w.snapshot.NodesTakingNoPods[:n] })
	w.snapshot.NodesTakingNoPods = append(w.snapshot.NodesTakingNoPods, node)
}

// refreshIndexes brings the indexes up to date with the node.
func (w *WhatIf) refreshIndexes(node *NodeInfo) {
	switch {
	case node.listIndex < 0:
	case w.changed != nil:
		w.changed[node] = true
	default:
		w.snapshot.nodeStore.indexes.refresh(node)
	}
}

// AddNode supposes a node that is to be launched. It counts against its pool's limits and
// the quotas it uses. Its labels and the pods placed on it with Place count for spread
// constraints and affinity terms. Decisions place no other pods on it. Its key must be new.
func (w *WhatIf) AddNode(n Node) *NodeInfo {
	n.TakesNoPods, n.MarkedForDeletion = true, false
	node := &NodeInfo{Node: n, Index: -1, listIndex: -1, Free: w.snapshot.Resources.CapacityVector(n.Allocatable)}
	node.readLabels(w.snapshot.Interner)
	w.listAsTakingNoPods(node)
	counts := w.snapshot.nodeStore.nodeLabelCounts
	counts.add(node, 1)
	w.tracked.addLabels(node, 1)
	w.onRollback(func() {
		w.tracked.addLabels(node, -1)
		counts.add(node, -1)
	})
	w.useLimits(&node.Node)
	w.useQuotas(&node.Node)
	return node
}

// useLimits subtracts the node from the limits of its pool.
func (w *WhatIf) useLimits(n *Node) {
	c := w.snapshot.PoolCatalogOf(n.Pool)
	if c == nil {
		return
	}
	left, nodes := c.Left, c.NodesLeft
	w.onRollback(func() { c.Left, c.NodesLeft = left, nodes })
	for _, d := range c.Limited {
		c.Left[d] -= n.Capacity[w.snapshot.Resources.Name(d)]
	}
	if c.NodesLeft > 0 {
		c.NodesLeft--
	}
}

// useQuotas subtracts what the node uses from the quotas.
func (w *WhatIf) useQuotas(n *Node) {
	before := w.snapshot.QuotaLeft
	w.onRollback(func() { w.snapshot.QuotaLeft = before })
	w.snapshot.QuotaLeft = maps.Clone(before)
	for _, use := range n.QuotaUses {
		if _, ok := w.snapshot.QuotaLeft[use.Quota]; ok {
			w.snapshot.QuotaLeft[use.Quota] -= use.Amount
		}
	}
}
