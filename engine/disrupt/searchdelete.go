// SPDX-License-Identifier: Apache-2.0

package disrupt

import (
	"slices"

	"github.com/karve-dev/karve/engine/offering"
)

// anyPrice is the maximum price of moves that may cost any amount.
const anyPrice = offering.Price(1<<63 - 1)

// deleteStage removes nodes whose pods fit on other nodes. It looks at the nodes three times; see
// stages.
type deleteStage struct {
	nodes     *nodes
	budgets   budgets
	accepted  *accepted
	receivers *receivers
	savings   savings
	moves     deletions
	// resumed is set in a search that continues an earlier one: it has no record of the nodes
	// that earlier calls put off.
	resumed bool

	mayPutOff bool
	putOff    map[*node]bool // their pods would go to a node that is mostly empty
}

// likely lists the nodes that are expected to be removed, by what they save. They take no pods:
// these would have to move again.
func (s *deleteStage) likely() []*node {
	order := s.nodes.byWorth()
	goes := map[*node]bool{}
	for _, n := range order {
		if n.forecast != staysFull && n.removable() {
			goes[n] = true
			s.receivers.close(n)
		}
	}
	return slices.DeleteFunc(order, func(n *node) bool { return !goes[n] && n.inMove != leaves })
}

// all lists nodes by what they save; every node that is kept takes pods.
func (s *deleteStage) all() []*node {
	s.mayPutOff = true
	return s.nodes.byWorth()
}

// again lists the nodes that were put off. Nodes that seemed the wrong instance type and yet have
// no cheaper replacement take pods again; then all nodes are looked at once more.
func (s *deleteStage) again() []*node {
	s.mayPutOff = false
	all := s.resumed
	for _, n := range s.nodes.all {
		if n.forecast == wrongType && n.inMove != leaves && (n.kept.Because == NotCheaper || n.kept.Because == PodsDoNotFit) {
			n.forecast = goes
			all = true
		}
	}
	s.receivers.rewind()
	return slices.DeleteFunc(s.nodes.byWorth(), func(n *node) bool { return !s.putOff[n] && !all })
}

// look removes a node whose pods fit on other nodes.
func (s *deleteStage) look(n *node) {
	if !n.removable() {
		return
	}
	if s.budgets.room(n.pool, Underutilized) == 0 {
		s.budgets.refuse(n, Underutilized)
		return
	}
	if s.savings.hopeless(n) {
		n.stays(poor(n))
		return
	}
	m, left := s.moves.of([]*node{n})
	if left.Because != "" {
		return
	}
	if s.mayPutOff && s.squanders(n, &m) {
		s.putOff[n] = true
		return
	}
	if left := s.accepted.take(m); left.Because != "" {
		n.stays(left)
	}
}

// squanders reports whether pods would go to a node of which two thirds are wasted even then.
// That node is the one to be removed: both are first considered for a replacement together.
func (s *deleteStage) squanders(n *node, m *Move) bool {
	for _, home := range m.Receivers {
		h := s.nodes.byKey[home.Node]
		if h == nil || h.may != mayConsolidate {
			continue
		}
		come := float64(n.price-n.waste) * float64(len(home.Pods)) / float64(m.Evictions)
		if h.waste-offering.Price(come) > h.price/3*2 {
			return true
		}
	}
	return false
}

// deletions makes moves that remove nodes and launch none.
type deletions struct {
	drafts  *drafts
	savings savings
}

// of makes a move that removes the nodes; Kept says why there is none.
func (s deletions) of(set []*node) (Move, Kept) {
	d, mark := s.drafts.without(set, 0)
	if d.Unplaced() > 0 {
		s.drafts.rollback(mark)
		return Move{}, Kept{Because: PodsDoNotFit, Detail: "Not all pods would schedule on other nodes"}
	}
	defer s.drafts.rollback(mark)
	before := cost(set)
	if before > 0 && !s.savings.pays(set, before, 0, 0) { // no known price: it surely saves
		return Move{}, spare(set[0], before, s.savings.least(set))
	}
	scores, approved := s.savings.balance(set, before)
	if !approved {
		return Move{}, poor(set[0])
	}
	m := newMove(Underutilized, set, d.Plan())
	m.Score = scores
	return m, Kept{}
}
