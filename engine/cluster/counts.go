// SPDX-License-Identifier: Apache-2.0

package cluster

// PodCounts counts the pods of some classes by the value of a node label, on the nodes in
// its DomainView. Nodes marked for deletion are left out.
type PodCounts struct {
	*DomainView
	// Classes are the classes whose pods count.
	Classes []*PodClass
	// WithoutTerminating leaves out terminating pods.
	WithoutTerminating bool

	// Counts are by value, without zeros. Total is their sum.
	Counts map[int]int
	Total  int
	// Changes is how often the counts have changed. It only grows, even when counts return to
	// earlier values.
	Changes int
}

// NodeCounts counts nodes by the value of a label: the nodes in its DomainView that are not
// marked for deletion, and those that the WhatIf removed (see RemoveNodes).
type NodeCounts struct {
	*DomainView
	Counts map[int]int // without zeros
	// Changes is how often the counts have changed.
	Changes int
}

// trackedCounts are the counts that a WhatIf keeps current.
type trackedCounts struct {
	nodes []*NodeCounts
	pods  map[*PodClass][]*PodCounts // by the classes whose pods count
}

// InWhatIf reports whether the Snapshot is that of a WhatIf. If so it pays to remember
// counts, and Memo is a place to keep them as long as the WhatIf lasts.
func (s *Snapshot) InWhatIf() bool { return s.whatIf != nil }

// Memo is what decisions about a WhatIf's Snapshot keep for later decisions; nil at first. It
// must be true whatever else the WhatIf supposes.
func (s *Snapshot) Memo() *any { return &s.whatIf.memo }

// TrackPods keeps a PodCounts, which holds the current counts, up to date while the WhatIf
// lasts.
func (s *Snapshot) TrackPods(c *PodCounts) {
	tracked := s.whatIf.tracked.pods
	for _, class := range c.Classes {
		tracked[class] = append(tracked[class], c)
	}
}

// TrackNodes keeps a NodeCounts, which holds the current counts, up to date while the WhatIf
// lasts.
func (s *Snapshot) TrackNodes(c *NodeCounts) {
	s.whatIf.tracked.nodes = append(s.whatIf.tracked.nodes, c)
}

// podsCount reports whether pods on the node count; labelsCount reports whether its labels
// count.
func podsCount(node *NodeInfo) bool   { return !node.MarkedForDeletion }
func labelsCount(node *NodeInfo) bool { return !node.MarkedForDeletion || node.removed }

// addLabels adds the node to the tracked NodeCounts, or subtracts it (by is 1 or -1).
func (t *trackedCounts) addLabels(node *NodeInfo, by int) {
	for _, c := range t.nodes {
		if v, ok := c.Value(node); ok {
			c.Changes++
			if c.Counts[v] += by; c.Counts[v] == 0 {
				delete(c.Counts, v)
			}
		}
	}
}

// addPods adds pods on the node to the tracked PodCounts, or subtracts them (by is 1 or -1).
func (t *trackedCounts) addPods(node *NodeInfo, counts []ClassCount, by int) {
	for _, n := range counts {
		for _, c := range t.pods[n.Class] {
			c.add(node, n, by)
		}
	}
}

func (c *PodCounts) add(node *NodeInfo, of ClassCount, by int) {
	v, ok := c.Value(node)
	if !ok {
		return
	}
	n := of.Pods
	if c.WithoutTerminating {
		n -= of.Terminating
	}
	c.Changes++
	c.Total += by * n
	if c.Counts[v] += by * n; c.Counts[v] == 0 {
		delete(c.Counts, v)
	}
}
