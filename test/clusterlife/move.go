// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"slices"

	"github.com/karve-dev/karve/engine/disrupt"
)

// stage is the phase of a move.
type stage int

const (
	chosen   stage = iota // waits for its second look
	tainted               // its nodes take no more pods
	launched              // replacements are on their way, pods are nominated to them
	draining              // its nodes' claims are deleted
	over
)

// move is a move under way.
type move struct {
	disrupt.Move
	id    int
	stage stage
	nodes []*node
	// replacements are its replacements.
	replacements []*node
	// unproved is the record of a consolidation until it is known whether it lasts; nil for none.
	record *recentConsolidation
}

// voluntary moves are consolidations, the others are due.
func (m *move) voluntary() bool {
	return m.Cause == disrupt.Empty || m.Cause == disrupt.Underutilized
}

// drop takes a node out of the move.
func (m *move) drop(n *node) {
	n.move, n.tainted = nil, false
	m.nodes = slices.DeleteFunc(m.nodes, func(o *node) bool { return o == n })
}
