package disrupt

import (
	"cmp"
	"slices"

	"github.com/karve-dev/karve/engine/offering"
)

// noPurse is the maximum price of moves that may cost any amount.
const noPurse = offering.Price(1<<63 - 1)

// byWorth lists all nodes, those first that save most for what they disrupt.
func (s *search) byWorth() []*node {
	out := slices.Clone(s.nodes)
	slices.SortStableFunc(out, func(x, y *node) int { return cmp.Compare(y.worth, x.worth) })
	return out
}

// doomed lists the nodes that are expected to go, by what they save. They take no pods: these
// would have to move again.
func (s *search) doomed() []*node {
	order := s.byWorth()
	for _, n := range order {
		if n.doomed = !n.keeper && s.removable(n); n.doomed {
			n.filling = true
			s.shut(n)
		}
	}
	return slices.DeleteFunc(order, func(n *node) bool { return !n.doomed && !n.gone })
}

// undecided lists nodes by what they save; every node that stays takes pods.
func (s *search) undecided() []*node {
	for _, n := range s.nodes {
		n.filling = false
	}
	return s.byWorth()
}

// removable reports whether the node may be consolidated in this plan.
func (s *search) removable(n *node) bool {
	return n.free && !n.gone && !n.home
}

// remove removes a node whose pods fit on other nodes.
func (s *search) remove(n *node) {
	if !s.removable(n) {
		return
	}
	if s.room(n.pool, Underutilized) == 0 {
		s.refused(n, Underutilized)
		return
	}
	if Hopeless(n.Node, n.pool, n.price, s.totals[n.Pool]) {
		n.stays(poor(n))
		return
	}
	m, left := s.delete([]*node{n})
	if left.Because != "" {
		return
	}
	if n.put = !s.lenient && !n.filling && s.squanders(n, &m); n.put {
		return
	}
	if left := s.take(m); left.Because != "" {
		n.stays(left)
	}
}

// squanders reports whether pods would go to a node of which two thirds are wasted even then.
// That node is the one that should go: both are first considered for a replacement together.
func (s *search) squanders(n *node, m *Move) bool {
	for _, home := range m.Receivers {
		h := s.byKey[home.Node]
		if h == nil || !h.free {
			continue
		}
		come := float64(n.price-n.waste) * float64(len(home.Pods)) / float64(m.Evictions)
		if h.waste-offering.Price(come) > h.price/3*2 {
			return true
		}
	}
	return false
}

// vetoed lists the nodes that were put off. Nodes that seemed the wrong instance type and yet have
// no cheaper replacement take pods again; then all nodes are looked at once more.
func (s *search) vetoed() []*node {
	s.lenient = true
	again := s.resumed
	for _, n := range s.nodes {
		if n.wrong && !n.gone && (n.kept.Because == NotCheaper || n.kept.Because == Homeless) {
			n.wrong = false
			again = true
		}
	}
	s.rewind()
	return slices.DeleteFunc(s.byWorth(), func(n *node) bool { return !n.put && !again })
}

// delete makes a move that removes the nodes; Kept says why there is none.
func (s *search) delete(set []*node) (Move, Kept) {
	d, mark := s.draftWithout(set, 0)
	if d.Unplaced() > 0 {
		s.whatIf.RollbackTo(mark)
		return Move{}, Kept{Because: Homeless, Detail: "Not all pods would schedule on other nodes"}
	}
	defer s.whatIf.RollbackTo(mark)
	parts, before := s.parts(set), cost(set)
	if before > 0 && !Pays(parts, before, 0, 0, s.c.Settings) { // no known price: it surely saves
		return Move{}, spare(set[0], before, Least(parts, s.c.Settings))
	}
	scores, approved := Balance(parts, before, s.totals)
	if !approved {
		return Move{}, poor(set[0])
	}
	m := s.draw(Underutilized, set, d.Plan())
	m.Score = scores
	return m, Kept{}
}

// parts splits the nodes by pool.
func (s *search) parts(set []*node) []Part {
	var out []Part
	for _, n := range set {
		i := slices.IndexFunc(out, func(p Part) bool { return p.Pool == n.pool })
		if i < 0 {
			i = len(out)
			out = append(out, Part{Pool: n.pool})
		}
		out[i].Nodes++
		out[i].Price = out[i].Price.Add(n.price)
		out[i].Cost += n.Cost
	}
	slices.SortFunc(out, func(x, y Part) int { return cmp.Compare(x.Pool.Name, y.Pool.Name) })
	return out
}
