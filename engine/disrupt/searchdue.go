// SPDX-License-Identifier: Apache-2.0

package disrupt

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/karve-dev/karve/engine/schedule"
)

// dueStage replaces nodes that are drifted or expired.
type dueStage struct {
	c        *Cluster
	nodes    *nodes
	budgets  budgets
	accepted *accepted
	moves    dueMoves
}

// order lists the nodes that must be replaced. The pools take turns, so that a pool whose nodes
// cannot be disrupted does not delay the others. Within a pool the order is: nodes without
// pods, then the nodes that are due longest.
func (s *dueStage) order() []*node {
	turns := map[string][]*node{}
	for _, n := range s.nodes.all {
		if len(n.Due) > 0 {
			turns[n.Pool] = append(turns[n.Pool], n)
		}
	}
	at := map[*node]int{}
	var out []*node
	for _, nodes := range turns {
		slices.SortStableFunc(nodes, func(x, y *node) int {
			return cmp.Or(cmp.Compare(min(x.Pods, 1), min(y.Pods, 1)), x.Due[0].Since.Compare(y.Due[0].Since), cmp.Compare(x.Key, y.Key))
		})
		for i, n := range nodes {
			at[n] = i
		}
		out = append(out, nodes...)
	}
	slices.SortFunc(out, func(x, y *node) int { return cmp.Or(cmp.Compare(at[x], at[y]), cmp.Compare(x.Key, y.Key)) })
	return out
}

// look replaces a node whatever that costs.
func (s *dueStage) look(n *node) {
	if n.inMove != noMove || n.info == nil || n.info.Leaving {
		return
	}
	cause := n.Due[0].Cause
	if left, ok := Eligible(n.Node, n.pool, cause, s.c); !ok {
		n.stays(left)
		return
	}
	if s.budgets.room(n.pool, cause) == 0 {
		s.budgets.refuse(n, cause)
		return
	}
	m, left := s.moves.of(n, cause)
	if left.Because == "" {
		left = s.accepted.take(m)
	}
	if left.Because != "" {
		n.stays(left)
	}
}

// dueMoves makes moves that replace nodes whatever that costs.
type dueMoves struct {
	c         *Cluster
	nodes     *nodes
	drafts    *drafts
	receivers *receivers
}

// of makes a move that replaces the node whatever that costs; Kept says why there is none. A
// static pool launches one more node, and the pods are rescheduled like when such a pool shrinks.
func (s dueMoves) of(n *node, cause Cause) (Move, Kept) {
	set := []*node{n}
	m := Move{}
	if n.pool.Static {
		s.drafts.steps++
		launches := schedule.Static(s.drafts.snapshot(), n.Pool, 1)
		if len(launches) == 0 {
			return m, Kept{Because: ReplacementUnavailable, Detail: fmt.Sprintf("NodePool %q cannot launch a replacement now", n.Pool)}
		}
		m = newMove(cause, set, schedule.Plan{Launches: launches})
		m.Evictions = n.Pods
	} else {
		s.receivers.admit()
		d, mark := s.drafts.without(set, anyPrice)
		plan := d.Plan()
		s.drafts.rollback(mark)
		if len(plan.Unplaced) > 0 {
			return m, unplaced(plan.Unplaced)
		}
		if left := s.nodes.resting(plan.Launches, s.c); left.Because != "" {
			return m, left
		}
		m = newMove(cause, set, plan)
	}
	m.Detail = n.Due[0].Detail + ": " + m.describe()
	return m, Kept{}
}
