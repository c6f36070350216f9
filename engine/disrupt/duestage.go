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
	in       *Input
	nodes    *nodes
	budgets  budgets
	accepted *accepted
	builder  dueMoveBuilder
}

// list lists the nodes that must be replaced. The pools take turns, so that a pool whose nodes
// cannot be disrupted does not delay the others. Within a pool the order is: nodes without
// pods, then the nodes that are due longest.
func (s *dueStage) list() []*node {
	byPool := map[string][]*node{}
	for _, n := range s.nodes.all {
		if len(n.Due) > 0 {
			byPool[n.Pool] = append(byPool[n.Pool], n)
		}
	}
	position := map[*node]int{} // in its pool
	var out []*node
	for _, nodes := range byPool {
		slices.SortStableFunc(nodes, func(x, y *node) int {
			return cmp.Or(cmp.Compare(min(x.Pods, 1), min(y.Pods, 1)), x.Due[0].Since.Compare(y.Due[0].Since), cmp.Compare(x.Key, y.Key))
		})
		for i, n := range nodes {
			position[n] = i
		}
		out = append(out, nodes...)
	}
	slices.SortFunc(out, func(x, y *node) int { return cmp.Or(cmp.Compare(position[x], position[y]), cmp.Compare(x.Key, y.Key)) })
	return out
}

// consider replaces a node whatever that costs.
func (s *dueStage) consider(n *node) {
	if n.role != noMove || n.info == nil || n.info.MarkedForDeletion {
		return
	}
	cause := n.Due[0].Cause
	if kept, ok := Eligible(n.Node, n.pool, cause, s.in); !ok {
		n.keep(kept)
		return
	}
	if s.budgets.allowed(n.pool, cause) == 0 {
		s.budgets.keep(n, cause)
		return
	}
	m, kept := s.builder.build(n, cause)
	s.accepted.addOrKeep(n, m, kept)
}

// dueMoveBuilder makes moves that replace nodes whatever that costs.
type dueMoveBuilder struct {
	in        *Input
	nodes     *nodes
	drafts    *drafts
	receivers *receivers
}

// build makes a move that replaces the node; Kept says why there is none. A static pool launches
// one more node, and kube-scheduler binds the pods wherever they fit, as when such a pool shrinks.
func (s dueMoveBuilder) build(n *node, cause Cause) (Move, Kept) {
	set := []*node{n}
	m := Move{}
	if n.pool.Static {
		s.drafts.steps++
		launches := schedule.StaticLaunches(s.drafts.snapshot(), n.Pool, 1)
		if len(launches) == 0 {
			return m, Kept{Because: ReplacementUnavailable, Detail: fmt.Sprintf("NodePool %q cannot launch a replacement now", n.Pool)}
		}
		m = newMove(cause, set, schedule.Plan{Launches: launches})
		m.Evictions = n.Pods
	} else {
		s.receivers.includeNotConsolidatable()
		d, mark := s.drafts.without(set, anyPrice)
		plan := d.Plan()
		s.drafts.rollback(mark)
		if len(plan.Unplaced) > 0 {
			return m, podsDoNotFit(plan.Unplaced)
		}
		if kept := s.nodes.backingOff(plan.Launches, s.in); kept.Because != "" {
			return m, kept
		}
		m = newMove(cause, set, plan)
	}
	m.Detail = n.Due[0].Detail + ": " + m.describe()
	return m, Kept{}
}
