package disrupt

import (
	"cmp"
	"slices"

	"github.com/karve-dev/karve/engine/schedule"
)

// empties lists the nodes that run nothing which would need another home, dearest first:
// where a budget does not last, the most is saved.
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

// empty takes an empty node away.
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

// discard makes a move of taking an empty node away. Pods that the World knows of and the
// Cluster does not came a moment ago.
func (s *search) discard(n *node) (Move, Kept) {
	d, mark := s.draftWithout([]*node{n}, 0)
	defer s.whatIf.RollbackTo(mark)
	if d.Unplaced() > 0 && !s.c.Settings.Upstream {
		return Move{}, Kept{Because: NotEmpty, Detail: "Pods came that would need another home"}
	}
	return s.draw(Empty, []*node{n}, d.Plan()), Kept{}
}

// draw writes a move down.
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
