// SPDX-License-Identifier: Apache-2.0

package disrupt

import (
	"cmp"
	"slices"
)

// emptyStage removes nodes without pods that need another node.
type emptyStage struct {
	in       *Input
	nodes    *nodes
	budgets  budgets
	accepted *accepted
	builder  emptyMoveBuilder
}

// list lists those nodes, most expensive first: where a budget does not suffice for all, the most
// is saved.
func (s *emptyStage) list() []*node {
	var out []*node
	for _, n := range s.nodes.all {
		if IsEmpty(n.Node, s.in.Settings) {
			out = append(out, n)
		}
	}
	slices.SortStableFunc(out, func(x, y *node) int { return cmp.Compare(y.price, x.price) })
	return out
}

// consider removes an empty node.
func (s *emptyStage) consider(n *node) {
	if n.role != noMove || n.info == nil || n.info.MarkedForDeletion {
		return
	}
	if kept, ok := Eligible(n.Node, n.pool, Empty, s.in); !ok {
		n.keep(kept)
		return
	}
	if s.budgets.allowed(n.pool, Empty) == 0 {
		s.budgets.keep(n, Empty)
		n.kept.WouldSave = n.price
		return
	}
	m, kept := s.builder.build(n)
	s.accepted.addOrKeep(n, m, kept)
}

// emptyMoveBuilder makes moves that remove empty nodes.
type emptyMoveBuilder struct {
	in     *Input
	drafts *drafts
}

// build makes a move that removes an empty node. Pods that are in the snapshot and not in the
// Input were bound a moment ago.
func (s emptyMoveBuilder) build(n *node) (Move, Kept) {
	d, mark := s.drafts.without([]*node{n}, 0)
	defer s.drafts.rollback(mark)
	if d.Unplaced() > 0 && !s.in.Settings.Upstream {
		return Move{}, Kept{Because: NotEmpty, Detail: "Pods came that need another node"}
	}
	return newMove(Empty, []*node{n}, d.Plan()), Kept{}
}
