package disrupt

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/karve-dev/karve/engine/schedule"
)

// dues lists the nodes that must be replaced. The pools take turns, so that a pool whose nodes
// cannot go does not delay the others. Within a pool nodes without pods come first, then the
// nodes that are due longest.
func (s *search) dues() []*node {
	turns := map[string][]*node{}
	for _, n := range s.nodes {
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

// due replaces a node whatever that costs.
func (s *search) due(n *node) {
	if n.gone || n.home || n.host == nil || n.host.Leaving {
		return
	}
	cause := n.Due[0].Cause
	if left, ok := Eligible(n.Node, n.pool, cause, s.c); !ok {
		n.stays(left)
		return
	}
	if s.room(n.pool, cause) == 0 {
		s.refused(n, cause)
		return
	}
	m, left := s.renew(n, cause)
	if left.Because == "" {
		left = s.take(m)
	}
	if left.Because != "" {
		n.stays(left)
	}
}

// renew makes a move that replaces the node whatever that costs; Kept says why there is none. A
// static pool launches one more node, and the pods are rescheduled like when such a pool shrinks.
func (s *search) renew(n *node, cause Cause) (Move, Kept) {
	set := []*node{n}
	m := Move{}
	if n.pool.Static {
		s.steps++
		launches := schedule.Static(s.whatIf.Snapshot(), n.Pool, 1)
		if len(launches) == 0 {
			return m, Kept{Because: Unreplaceable, Detail: fmt.Sprintf("NodePool %q can buy no machine to take its place", n.Pool)}
		}
		m = s.draw(cause, set, schedule.Plan{Launches: launches})
		m.Evictions = n.Pods
	} else {
		s.admit()
		d, mark := s.draftWithout(set, noPurse)
		plan := d.Plan()
		s.whatIf.RollbackTo(mark)
		if len(plan.Unplaced) > 0 {
			return m, homeless(plan.Unplaced)
		}
		if left := s.exhausted(plan.Launches); left.Because != "" {
			return m, left
		}
		m = s.draw(cause, set, plan)
	}
	m.Detail = n.Due[0].Detail + ": " + m.describe()
	return m, Kept{}
}
