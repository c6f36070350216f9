// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"slices"

	"github.com/karve-dev/karve/engine/constraint"
)

// PodCounts counts the pods of some classes by the value of a node label, on the nodes in
// its DomainView. Leaving nodes are left out.
type PodCounts struct {
	*DomainView
	// Classes are the classes whose pods count.
	Classes []*PodClass
	// Settled leaves out terminating pods.
	Settled bool

	// Counts are by value, without zeros. Total is their sum.
	Counts map[int]int
	Total  int
	// Changes is how often the counts have changed. It only grows, even when counts return to
	// earlier values.
	Changes int
}

// NodeCounts counts nodes by the value of a label: the nodes in its DomainView that are not
// leaving, and those that the WhatIf removed (see RemoveNodes).
type NodeCounts struct {
	*DomainView
	Counts map[int]int // without zeros
	// Changes is how often the counts have changed.
	Changes int
}

// DomainView says whether a node counts and in which domain, the value of a label. It
// remembers the answer for nodes that are alike, so it is valid for one WhatIf. Counts that
// look at the same nodes should share one.
type DomainView struct {
	key   *constraint.Key
	looks func(*NodeInfo) bool
	// alike groups nodes for which the answer is the same; nil when the answer may differ for
	// every node.
	alike *NodeIndex
	// known is by the group in alike, or by position in Snapshot.Nodes: the value plus one; 0
	// where the answer is not known yet; -1 for nodes that do not count.
	known []int32
}

// NewDomainView makes a DomainView for the label key. looks reports whether a node counts.
// Its answer must never change, and must be the same for nodes with equal taints and equal
// values of labels and key.
func (w *Snapshot) NewDomainView(key *constraint.Key, labels []*constraint.Key, looks func(*NodeInfo) bool) *DomainView {
	return &DomainView{key: key, looks: looks, alike: w.NodeIndex(append(slices.Clip(labels), key))}
}

// NewPerNodeDomainView is NewDomainView for a looks whose answer may differ for every node.
func NewPerNodeDomainView(key *constraint.Key, looks func(*NodeInfo) bool) *DomainView {
	return &DomainView{key: key, looks: looks}
}

// Value is the ID of the node's value; false when the node does not count.
func (l *DomainView) Value(h *NodeInfo) (int, bool) {
	if h.at < 0 {
		return l.ask(h)
	}
	at := h.at
	if l.alike != nil {
		at = int(l.alike.of[h.at])
	}
	if at >= len(l.known) {
		l.known = append(l.known, make([]int32, at+1-len(l.known))...)
	}
	known := &l.known[at]
	if *known == 0 {
		*known = -1
		if v, ok := l.ask(h); ok {
			*known = int32(v) + 1
		}
	}
	return int(*known) - 1, *known > 0
}

func (l *DomainView) ask(h *NodeInfo) (int, bool) {
	v, ok := h.Value(l.key)
	return v, ok && l.looks(h)
}

// InWhatIf reports whether the Snapshot is that of a WhatIf. If so it pays to remember
// counts, and Memo is a place to keep them as long as the WhatIf lasts.
func (w *Snapshot) InWhatIf() bool { return w.trial != nil }

// Memo is what decisions about a WhatIf's Snapshot keep for later decisions; nil at first. It
// must be true whatever else the WhatIf supposes.
func (w *Snapshot) Memo() *any { return &w.trial.remembered }

// TrackPods keeps a PodCounts, which holds the current counts, up to date while the WhatIf
// lasts.
func (w *Snapshot) TrackPods(c *PodCounts) {
	watch := w.trial.watch
	for _, class := range c.Classes {
		watch[class] = append(watch[class], c)
	}
}

// TrackNodes keeps a NodeCounts, which holds the current counts, up to date while the WhatIf
// lasts.
func (w *Snapshot) TrackNodes(r *NodeCounts) { w.trial.rolls = append(w.trial.rolls, r) }

// podsCount reports whether pods on the node count; labelsCount reports whether its labels
// count.
func podsCount(h *NodeInfo) bool   { return !h.Leaving }
func labelsCount(h *NodeInfo) bool { return !h.Leaving || h.vacated }

// recountLabels adds the node to the tracked NodeCounts, or subtracts it (by is 1 or -1).
func (t *WhatIf) recountLabels(h *NodeInfo, by int) {
	for _, r := range t.rolls {
		if v, ok := r.Value(h); ok {
			r.Changes++
			if r.Counts[v] += by; r.Counts[v] == 0 {
				delete(r.Counts, v)
			}
		}
	}
}

// recountPods adds pods on the node to the tracked PodCounts, or subtracts them (by is 1 or
// -1).
func (t *WhatIf) recountPods(h *NodeInfo, podsThere []ClassCount, by int) {
	for _, m := range podsThere {
		for _, c := range t.watch[m.Class] {
			c.add(h, m, by)
		}
	}
}

func (c *PodCounts) add(h *NodeInfo, m ClassCount, by int) {
	v, ok := c.Value(h)
	if !ok {
		return
	}
	n := m.Pods
	if c.Settled {
		n -= m.Terminating
	}
	c.Changes++
	c.Total += by * n
	if c.Counts[v] += by * n; c.Counts[v] == 0 {
		delete(c.Counts, v)
	}
}
