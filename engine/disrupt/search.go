// SPDX-License-Identifier: Apache-2.0

package disrupt

import (
	"math"
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/schedsim"
	"github.com/karve-dev/karve/engine/schedule"
)

// Search decides which nodes are removed and what replaces them. It applies moves to a what-if
// of the snapshot, one on top of the other; the snapshot itself does not change. All moves of a
// plan can be made at once, in any order, and no pod moves twice.
//
// It looks in stages: nodes that are empty; nodes that are due; nodes whose pods fit on other
// nodes; nodes whose pods cost less on new nodes. With Settings.MaxSteps it stops after that many
// sets of nodes, and the Plan says where to continue. The order of nodes and pools in the Input
// does not change the Plan.
func Search(snapshot *cluster.Snapshot, in Input, from Cursor) Plan {
	s := newSearch(snapshot, &in, !in.Settings.Upstream)
	defer s.drafts.whatIf.End()
	s.accepted.dependencies.add(dependenciesOf(s.drafts.snapshot(), s.arrivals))
	all := s.stages(from != Cursor{})
	for i := from.Stage; i < len(all); i++ {
		s.receivers.reset()
		next, done := s.runStage(i, all[i], from)
		if !done {
			return Plan{Moves: s.accepted.moves, Kept: s.nodes.kept(), Next: next}
		}
	}
	if from == (Cursor{}) {
		s.nodes.explainOthers()
	}
	return Plan{Moves: s.accepted.moves, Kept: s.nodes.kept(), Done: true}
}

// search is what the stages of one call of Search share, or what Recheck needs.
type search struct {
	in        *Input
	nodes     *nodes
	budgets   budgets
	savings   savings
	prices    *schedule.ShadowPrices
	drafts    *drafts
	receivers *receivers
	accepted  *accepted
	arrivals  arrivals // of pods of moves under way
}

// newSearch applies the moves under way. It rehearses its moves when rehearsed is set.
func newSearch(snapshot *cluster.Snapshot, in *Input, rehearsed bool) *search {
	s := &search{in: in, nodes: newNodes(snapshot, in), budgets: CountNodes(in), drafts: newDrafts(snapshot)}
	var infos []*cluster.NodeInfo
	for i := range in.Nodes {
		if info := s.nodes.byKey[in.Nodes[i].Key].info; info != nil {
			infos = append(infos, info)
		}
	}
	s.prices = schedule.NewShadowPrices(snapshot, infos)
	s.savings = savings{in, TotalsOf(in, func(key string) offering.Price { return s.nodes.byKey[key].price })}
	s.receivers = &receivers{in: in, nodes: s.nodes, whatIf: s.drafts.whatIf}
	s.accepted = &accepted{nodes: s.nodes, budgets: s.budgets, drafts: s.drafts, dependencies: newDependencies()}
	if rehearsed {
		s.accepted.sim = schedsim.New(snapshot)
	}
	s.arrivals = s.accepted.applyUnderway(in.Underway)
	s.receivers.stopNonReceivers()
	for _, n := range s.nodes.all {
		n.setEligibility(in, s.budgets[n.Pool])
	}
	setPerEviction(in, s.nodes.all, s.prices)
	for _, n := range s.nodes.all {
		s.setWaste(n)
	}
	forecast(s.nodes.all, s.prices, in.Settings)
	return s
}

// setPerEviction computes what an eviction must save: a share of the average cost of a pod. The
// average is the price that remains in the best case (the price of nodes that are kept
// indefinitely, and the price of nodes for the other pods at the best prices) divided by the pods
// that may move: where few pods may move, the saving of the whole cluster depends on these. The
// value does not change while the cluster shrinks, so no plan is undone by the next.
func setPerEviction(in *Input, all []*node, prices *schedule.ShadowPrices) {
	t := &in.Settings.MinSavings
	if t.ShareOfPodCost <= 0 {
		return
	}
	kept, movable, pods := offering.Price(0), offering.Price(0), 0.0
	for _, n := range all {
		switch {
		case n.info == nil || n.role == leaves || n.info.MarkedForDeletion:
		case n.keptIndefinitely():
			kept = kept.Add(n.price)
		default:
			movable = movable.Add(prices.Worth(n.info))
			pods += n.EvictionCost
		}
	}
	if pods == 0 {
		return
	}
	t.PerEviction = min(t.PerEviction, offering.Price(t.ShareOfPodCost*float64(kept.Add(movable))/pods))
	if !in.Settings.Upstream {
		setShortStaySavings(all, prices, t.ShortStayShare, float64(movable)/pods)
	}
}

// maxOfOwnCost bounds what a pod that may leave soon is taken to cost, as a multiple of what pods of its
// node cost on average: pods that use hardly anything do not keep a node.
const maxOfOwnCost = 4

// setShortStaySavings computes what a move of each node must save for the pods that may leave soon: for
// each unit of ShortStayCost that share of what an average pod costs.
func setShortStaySavings(all []*node, prices *schedule.ShadowPrices, share, averagePod float64) {
	for _, n := range all {
		if n.info != nil && n.ShortStayCost > 0 && n.EvictionCost > 0 {
			own := float64(prices.Worth(n.info)) / n.EvictionCost
			n.shortStaySavings = offering.Price(math.Ceil(n.ShortStayCost * share * min(averagePod, maxOfOwnCost*own)))
		}
	}
}

// setWaste computes what the node wastes, and whether its replacement can pay.
func (s *search) setWaste(n *node) {
	if n.info == nil || n.price == 0 {
		return
	}
	n.waste = n.price - s.prices.Worth(n.info) // of all nodes: cursors need the same queue
	if n.pool == nil {
		return
	}
	n.requiredSavings = s.savings.required([]*node{n})
	n.replaceable = s.savings.spotToSpot([]*node{n}).Because == ""
}

// stage is one pass over the nodes: list lists them, and consider decides about each.
type stage struct {
	list     func() []*node
	consider func(*node)
}

// stages in the order in which they run. Deletions are tried three times. First the nodes that
// are expected to be removed take no pods of each other. Then nodes that could not be removed
// take pods. At last nodes that are mostly empty, or that seemed the wrong instance type, take
// pods too: no better move was found for them.
func (s *search) stages(resumed bool) []stage {
	empty := &emptyStage{s.in, s.nodes, s.budgets, s.accepted, emptyMoveBuilder{s.in, s.drafts}}
	due := &dueStage{s.in, s.nodes, s.budgets, s.accepted, s.dueMoves()}
	deletion := &deleteStage{nodes: s.nodes, budgets: s.budgets, accepted: s.accepted, receivers: s.receivers, savings: s.savings,
		builder: deletionBuilder{s.drafts, s.savings}, resumed: resumed, postponed: map[*node]bool{}}
	replacement := s.replaceStage()
	settingCost := &settingCostStage{s.nodes, s.drafts, s.prices}
	return []stage{
		{empty.list, empty.consider},
		{due.list, due.consider},
		{deletion.listExpected, deletion.consider},
		{deletion.listAll, deletion.consider},
		{replacement.list, replacement.consider},
		{deletion.listPostponed, deletion.consider},
		{settingCost.list, settingCost.consider},
	}
}

func (s *search) replaceStage() *replaceStage {
	return &replaceStage{nodes: s.nodes, budgets: s.budgets, accepted: s.accepted, drafts: s.drafts, savings: s.savings,
		builder: s.replacements(false), history: map[string]groupHistory{}, failedWithFreeCapacity: map[string]int{}, replacedAtOnce: map[string]int{}}
}

func (s *search) dueMoves() dueMoveBuilder {
	return dueMoveBuilder{s.in, s.nodes, s.drafts, s.receivers}
}

// replacements makes replacements of a search, or of Recheck when the move was decided before.
func (s *search) replacements(decided bool) replacementBuilder {
	return replacementBuilder{s.in, s.nodes, s.drafts, s.savings, decided}
}

// runStage runs one stage from the cursor on, if the cursor is in it. The list includes nodes that
// earlier calls handled, so that the cursor finds its place.
func (s *search) runStage(i int, stage stage, from Cursor) (next Cursor, done bool) {
	list := stage.list()
	at := 0
	if i == from.Stage && from.Key != "" {
		at = 1 + slices.IndexFunc(list, func(n *node) bool { return n.Key == from.Key })
	}
	next.Stage = i
	for ; at < len(list); at++ {
		if at > 0 {
			next.Key = list[at-1].Key
		}
		if limit := s.in.Settings.MaxSteps; limit > 0 && s.drafts.steps >= limit {
			return next, false
		}
		stage.consider(list[at])
	}
	return Cursor{}, true
}
