// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"slices"

	"github.com/karve-dev/karve/engine/constraint"
)

// DomainView says whether a node counts and in which domain, the value of a label. It
// remembers the answer for nodes that are alike, so it is valid for one WhatIf. Counts that
// look at the same nodes should share one.
type DomainView struct {
	key      *constraint.Key
	includes func(*NodeInfo) bool
	// alike groups nodes for which the answer is the same; nil when the answer may differ for
	// every node.
	alike *NodeIndex
	// known is by the group in alike, or by position in Snapshot.Nodes: the value plus one; 0
	// where the answer is not known yet; -1 for nodes that do not count.
	known []int32
}

// NewDomainView makes a DomainView for the label key. includes reports whether a node counts.
// Its answer must never change, and must be the same for nodes with equal taints and equal
// values of labels and key.
func (s *Snapshot) NewDomainView(key *constraint.Key, labels []*constraint.Key, includes func(*NodeInfo) bool) *DomainView {
	return &DomainView{key: key, includes: includes, alike: s.NodeIndex(append(slices.Clip(labels), key))}
}

// NewPerNodeDomainView is NewDomainView for an includes whose answer may differ for every node.
func NewPerNodeDomainView(key *constraint.Key, includes func(*NodeInfo) bool) *DomainView {
	return &DomainView{key: key, includes: includes}
}

// Value is the ID of the node's value; false when the node does not count.
func (v *DomainView) Value(node *NodeInfo) (int, bool) {
	if node.listIndex < 0 {
		return v.compute(node)
	}
	at := node.listIndex
	if v.alike != nil {
		at = int(v.alike.groups[node.listIndex])
	}
	if at >= len(v.known) {
		v.known = append(v.known, make([]int32, at+1-len(v.known))...)
	}
	known := &v.known[at]
	if *known == 0 {
		*known = -1
		if id, ok := v.compute(node); ok {
			*known = int32(id) + 1
		}
	}
	return int(*known) - 1, *known > 0
}

func (v *DomainView) compute(node *NodeInfo) (int, bool) {
	id, ok := node.Value(v.key)
	return id, ok && v.includes(node)
}
