package cluster

import (
	"slices"

	"github.com/karve-dev/karve/engine/constraint"
)

// PodCounts counts pods of some kind by the value of a node label, on the nodes that it
// looks at. Nodes that are leaving are none.
type PodCounts struct {
	*DomainView
	// Classes are those of the pods that count.
	Classes []*PodClass
	// Settled leaves out terminating pods.
	Settled bool

	// Counts are by value, without zeros. Total is their sum.
	Counts map[int]int
	Total  int
	// Changes is how often they changed: it never comes back to what it was.
	Changes int
}

// NodeCounts counts nodes by the value of a label: those that it looks at and that are not
// leaving, but for those that the WhatIf vacated (see Vacate).
type NodeCounts struct {
	*DomainView
	Counts map[int]int // never zero
	// Changes is how often they changed.
	Changes int
}

// DomainView tells by which value of a label a node counts, if it does. It remembers that of nodes that
// are alike: so it is good for one WhatIf. What looks at nodes in the same way should share one.
type DomainView struct {
	key   *constraint.Key
	looks func(*NodeInfo) bool
	// alike puts together nodes that cannot be told apart; nil when each is one of its own.
	alike *NodeIndex
	// known is by the group in the index, or by position in Snapshot.Nodes: the value and one, 0 where
	// nobody asked, -1 for nodes that do not count.
	known []int32
}

// NewLens makes a DomainView for the label. looks reports whether the node counts; it must always
// answer the same, and for nodes that are alike by their taints and those labels, too.
func (w *Snapshot) NewDomainView(key *constraint.Key, labels []*constraint.Key, looks func(*NodeInfo) bool) *DomainView {
	return &DomainView{key: key, looks: looks, alike: w.NodeIndex(append(slices.Clip(labels), key))}
}

// NewPerNodeDomainView is NewLens for what may answer otherwise for every node.
func NewPerNodeDomainView(key *constraint.Key, looks func(*NodeInfo) bool) *DomainView {
	return &DomainView{key: key, looks: looks}
}

// Value is the node's value; false when it does not count.
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

// Tried reports whether the Snapshot is that of a WhatIf: it then pays to remember what was
// counted. Remembered is a place to keep it in, as long as the WhatIf lasts.
func (w *Snapshot) InWhatIf() bool { return w.trial != nil }

// Remembered is what decisions about a WhatIf's Snapshot left for those that come after them;
// nil at first. It must be true of the Snapshot whatever is supposed.
func (w *Snapshot) Memo() *any { return &w.trial.remembered }

// Follow keeps a PodCounts, which says how things stand now, current while the WhatIf lasts.
func (w *Snapshot) TrackPods(c *PodCounts) {
	watch := w.trial.watch
	for _, class := range c.Classes {
		watch[class] = append(watch[class], c)
	}
}

// FollowRoll does the same for a NodeCounts.
func (w *Snapshot) TrackNodes(r *NodeCounts) { w.trial.rolls = append(w.trial.rolls, r) }

// podsCount reports whether pods on the node count, labelsCount whether its labels do.
func podsCount(h *NodeInfo) bool   { return !h.Leaving }
func labelsCount(h *NodeInfo) bool { return !h.Leaving || h.vacated }

// recountLabels adds the node to the rolls, or takes it off.
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

// recountPods adds pods on the node to what is counted, or takes them off.
func (t *WhatIf) recountPods(h *NodeInfo, crew []ClassCount, by int) {
	for _, m := range crew {
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
