package disrupt

import (
	"cmp"
	"slices"

	"github.com/karve-dev/karve/engine/schedule"
)

// empties lists the nodes without pods that need another node, most expensive first: where a
// budget does not suffice for all, the most is saved.
func (s *search) empties() []*node {
	var out []*node
	for _, n := range s.nodes {
		if Vacant(n.Node, s.c.Settings) {
			out = append(out, n)
		}
	}
	slices.SortStableFunc(out, func(x, y *node) int { return cmp.Compare(y.price, x.price) })
	return out
}

// empty removes an empty node.
func (s *search) empty(n *node) {
	if n.gone || n.home || n.host == nil || n.host.Leaving {
		return
	}
	if left, ok := Eligible(n.Node, n.pool, Empty, s.c); !ok {
		n.stays(left)
		return
	}
	if s.room(n.pool, Empty) == 0 {
		s.refused(n, Empty)
		n.kept.Costs = n.price
		return
	}
	m, left := s.discard(n)
	if left.Because == "" {
		left = s.take(m)
	}
	if left.Because != "" {
		n.stays(left)
	}
}

// discard makes a move that removes an empty node. Pods that are in the snapshot and not in the
// Cluster came a moment ago.
func (s *search) discard(n *node) (Move, Kept) {
	d, mark := s.draftWithout([]*node{n}, 0)
	defer s.whatIf.RollbackTo(mark)
	if d.Unplaced() > 0 && !s.c.Settings.Upstream {
		return Move{}, Kept{Because: NotEmpty, Detail: "Pods came that would need another home"}
	}
	return s.draw(Empty, []*node{n}, d.Plan()), Kept{}
}

// draw builds a move from the plan.
func (s *search) draw(cause Cause, set []*node, p schedule.Plan) Move {
	m := Move{Cause: cause, Receivers: p.Nominations, Launches: p.Launches, After: p.Price()}
	for _, n := range set {
		m.Nodes = append(m.Nodes, n.Key)
		m.Before = m.Before.Add(n.price)
	}
	slices.Sort(m.Nodes)
	for _, home := range m.Receivers {
		m.Evictions += len(home.Pods)
	}
	for i := range m.Launches {
		m.Evictions += len(m.Launches[i].Pods)
	}
	m.Detail = m.describe()
	return m
}
