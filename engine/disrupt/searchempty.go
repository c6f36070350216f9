// SPDX-License-Identifier: Apache-2.0

package disrupt

import (
	"cmp"
	"slices"
)

// emptyStage removes nodes without pods that need another node.
type emptyStage struct {
	c        *Cluster
	nodes    *nodes
	budgets  budgets
	accepted *accepted
	moves    emptyMoves
}

// order lists those nodes, most expensive first: where a budget does not suffice for all, the most
// is saved.
func (s *emptyStage) order() []*node {
	var out []*node
	for _, n := range s.nodes.all {
		if Vacant(n.Node, s.c.Settings) {
			out = append(out, n)
		}
	}
	slices.SortStableFunc(out, func(x, y *node) int { return cmp.Compare(y.price, x.price) })
	return out
}

// look removes an empty node.
func (s *emptyStage) look(n *node) {
	if n.inMove != noMove || n.info == nil || n.info.Leaving {
		return
	}
	if left, ok := Eligible(n.Node, n.pool, Empty, s.c); !ok {
		n.stays(left)
		return
	}
	if s.budgets.room(n.pool, Empty) == 0 {
		s.budgets.refuse(n, Empty)
		n.kept.Costs = n.price
		return
	}
	m, left := s.moves.of(n)
	if left.Because == "" {
		left = s.accepted.take(m)
	}
	if left.Because != "" {
		n.stays(left)
	}
}

// emptyMoves makes moves that remove empty nodes.
type emptyMoves struct {
	c      *Cluster
	drafts *drafts
}

// of makes a move that removes an empty node. Pods that are in the snapshot and not in the
// Cluster were bound a moment ago.
func (s emptyMoves) of(n *node) (Move, Kept) {
	d, mark := s.drafts.without([]*node{n}, 0)
	defer s.drafts.rollback(mark)
	if d.Unplaced() > 0 && !s.c.Settings.Upstream {
		return Move{}, Kept{Because: NotEmpty, Detail: "Pods came that need another node"}
	}
	return newMove(Empty, []*node{n}, d.Plan()), Kept{}
}
