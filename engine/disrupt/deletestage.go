// SPDX-License-Identifier: Apache-2.0

package disrupt

import (
	"slices"

	"github.com/karve-dev/karve/engine/offering"
)

// anyPrice is the maximum price of moves that may cost any amount.
const anyPrice = offering.Price(1<<63 - 1)

// deleteStage removes nodes whose pods fit on other nodes. It considers the nodes three times; see
// search.stages.
type deleteStage struct {
	nodes     *nodes
	budgets   budgets
	accepted  *accepted
	receivers *receivers
	savings   savings
	builder   deletionBuilder
	// resumed is set in a search that continues an earlier one: it has no record of the nodes
	// that earlier calls postponed.
	resumed bool

	mayPostpone bool
	postponed   map[*node]bool // their pods would go to a node that is mostly empty
}

// listExpected lists the nodes that are expected to be removed, by price per disruption. They
// receive no pods: these would have to move again.
func (s *deleteStage) listExpected() []*node {
	order := s.nodes.byPricePerDisruption()
	expected := map[*node]bool{}
	for _, n := range order {
		if n.forecast != keepExpected && n.removable() {
			expected[n] = true
			s.receivers.stop(n)
		}
	}
	return slices.DeleteFunc(order, func(n *node) bool { return !expected[n] && n.role != leaves })
}

// listAll lists all nodes by price per disruption; every node that is kept receives pods.
func (s *deleteStage) listAll() []*node {
	s.mayPostpone = true
	return s.nodes.byPricePerDisruption()
}

// listPostponed lists the nodes that were postponed. Nodes that seemed the wrong instance type and
// yet have no cheaper replacement receive pods again; then all nodes are considered once more.
func (s *deleteStage) listPostponed() []*node {
	s.mayPostpone = false
	all := s.resumed
	for _, n := range s.nodes.all {
		if n.forecast == wrongType && n.role != leaves && (n.kept.Because == NotCheaper || n.kept.Because == PodsDoNotFit) {
			n.forecast = removeExpected
			all = true
		}
	}
	s.receivers.reset()
	return slices.DeleteFunc(s.nodes.byPricePerDisruption(), func(n *node) bool { return !s.postponed[n] && !all })
}

// consider removes a node whose pods fit on other nodes.
func (s *deleteStage) consider(n *node) {
	if !n.removable() {
		return
	}
	if s.budgets.allowed(n.pool, Underutilized) == 0 {
		s.budgets.keep(n, Underutilized)
		return
	}
	if s.savings.cannotReachThreshold(n) {
		n.keep(scoreTooLow(n))
		return
	}
	m, kept := s.builder.build([]*node{n})
	if kept.Because == ShortLivedPods {
		n.keep(kept)
	}
	if kept.Because != "" {
		return
	}
	if s.mayPostpone && s.fillsWastefulNode(n, &m) {
		s.postponed[n] = true
		return
	}
	s.accepted.addOrKeep(n, m, Kept{})
}

// fillsWastefulNode reports whether pods would go to a node of which two thirds are wasted even
// then. That node is the one to be removed: both are first considered for a replacement together.
func (s *deleteStage) fillsWastefulNode(n *node, m *Move) bool {
	for _, r := range m.Nominations {
		receiver := s.nodes.byKey[r.Node]
		if receiver == nil || receiver.eligibility != mayConsolidate {
			continue
		}
		used := float64(n.price-n.waste) * float64(len(r.Pods)) / float64(m.Evictions)
		if receiver.waste-offering.Price(used) > receiver.price/3*2 {
			return true
		}
	}
	return false
}

// deletionBuilder makes moves that remove nodes and launch none.
type deletionBuilder struct {
	drafts  *drafts
	savings savings
}

// build makes a move that removes the nodes; Kept says why there is none.
func (s deletionBuilder) build(set []*node) (Move, Kept) {
	d, mark := s.drafts.without(set, 0)
	defer s.drafts.rollback(mark)
	if d.Unplaced() > 0 {
		return Move{}, Kept{Because: PodsDoNotFit, Detail: "Not all pods would schedule on other nodes"}
	}
	before := priceOf(set)
	if before > 0 && !s.savings.pays(set, before, 0) { // no known price: it surely saves
		return Move{}, s.savings.tooSmall(set, before, 0)
	}
	scores, approved := s.savings.scoreByPool(set, before)
	if !approved {
		return Move{}, scoreTooLow(set[0])
	}
	m := newMove(Underutilized, set, d.Plan())
	m.Score = scores
	return m, Kept{}
}
