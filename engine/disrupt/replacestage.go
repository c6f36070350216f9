// SPDX-License-Identifier: Apache-2.0

package disrupt

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/schedule"
)

// replaceStage replaces nodes whose pods cost less on new nodes.
type replaceStage struct {
	nodes    *nodes
	budgets  budgets
	accepted *accepted
	drafts   *drafts
	savings  savings
	builder  replacementBuilder

	queue     []*node                 // see list
	proposals []knownProposal         // of the node that is considered: see proposalOf
	history   map[string]groupHistory // by byPoolZoneCapacityType
	// failedWithFreeCapacity counts, by poolZoneCapacityType, the consecutive nodes that
	// replaceUsingFreeCapacity could not replace.
	failedWithFreeCapacity map[string]int
	// replacedAtOnce is how many nodes of the wrong instance type replaceWrongTypes replaced at once
	// when it last tried, by pool; 1 when it could not.
	replacedAtOnce map[string]int
}

// list lists the nodes that may be worth replacing: those first that waste most for what
// they disrupt.
func (s *replaceStage) list() []*node {
	ratio := func(n *node) float64 { return float64(n.waste) / (1 + n.EvictionCost) }
	s.queue = s.queue[:0]
	for _, n := range s.nodes.all {
		if n.info != nil {
			s.queue = append(s.queue, n)
		}
	}
	slices.SortStableFunc(s.queue, func(x, y *node) int { return cmp.Compare(ratio(y), ratio(x)) })
	for i, n := range s.queue {
		n.queueIndex = i
	}
	return s.queue
}

// maxSetSize bounds the nodes of one move: with more nodes the saving of each hardly grows, and a
// move can fail as a whole.
const maxSetSize = 32

// proposal is a set of nodes that may be removed together, and what that would save.
type proposal struct {
	set   []*node
	saves offering.Price
	ratio float64 // saves divided by the disruption cost
	// draft is what replaces the nodes within the maximum price of such a move; nil when it was
	// not made.
	draft *schedule.Draft
}

// consider searches the best move that removes the node: alone, or with others that waste as
// much, as long as larger sets save more for what they disrupt.
func (s *replaceStage) consider(n *node) {
	if !n.removable() || s.keepIfRuledOut(n) {
		return
	}
	if n.waste < n.requiredSavings {
		s.replaceUsingFreeCapacity(n)
		return
	}
	clear(s.proposals)
	s.proposals = s.proposals[:0]
	if n.forecast == wrongType && s.replaceWrongTypes(n) {
		return
	}
	group := byPoolZoneCapacityType(n)
	past := s.history[group]
	best := s.proposeSingle(n)
	if past.failures < maxFailures || n.queueIndex%8 == 0 {
		best = s.proposeSet(n, best, &past)
	}
	if best != nil {
		past.ratio = best.ratio
		if len(best.set) == 1 {
			past.size = 1
		}
	}
	if best != nil && s.accept(best) {
		past.failures = 0
	} else {
		past.failures++
	}
	s.history[group] = past
}

// proposeSet proposes a set around the node when that is better than best. The size that paid last
// mostly pays again.
func (s *replaceStage) proposeSet(n *node, best *proposal, past *groupHistory) *proposal {
	if past.size > 1 {
		best = betterOf(best, s.proposalOf(s.setAround(n, groupings()[past.grouping], past.size)))
		if best != nil && best.ratio >= 0.9*past.ratio {
			return best
		}
	}
	return s.growSet(n, best, past)
}

// replaceUsingFreeCapacity replaces a node that wastes less than a replacement must save. The
// waste is no upper bound when other nodes have free capacity: pods that fit there need no new
// node, and the shadow prices do not include it. Where hardly any node of the same pool, zone
// and capacity type found such capacity, only every eighth node is tried.
func (s *replaceStage) replaceUsingFreeCapacity(n *node) {
	if s.failedWithFreeCapacity[n.poolZoneCapacityType] < maxFailures || n.queueIndex%8 == 0 {
		p := s.evaluate([]*node{n})
		if p != nil && s.accept(p) {
			s.failedWithFreeCapacity[n.poolZoneCapacityType] = 0
			return
		}
		if !s.keptByShortStays(n) { // it says nothing of other nodes
			s.failedWithFreeCapacity[n.poolZoneCapacityType]++
		}
		if p != nil {
			return // accept recorded why
		}
	}
	switch n.kept.Because {
	case RehearsalFailed, NeededByOtherMove, ShortLivedPods: // its removal failed for that
		return
	}
	if n.replaceable && s.keptByShortStays(n) {
		n.keep(shortLivedPods(n, fmt.Sprintf("up to $%s/h", n.waste), n.waste))
		return
	}
	n.keep(wastesTooLittle(n))
}

// keptByShortStays reports whether the node wastes enough for a replacement, were its pods expected to
// stay.
func (s *replaceStage) keptByShortStays(n *node) bool {
	return n.waste < n.requiredSavings && s.savings.shortLived([]*node{n}, n.waste, 1) != nil
}

// maxFailures is how many nodes of a group are tried in sets without success before the others
// are tried alone.
const maxFailures = 2

// maxWrongTypes is how many nodes of the wrong instance type are replaced at once: enough for the new
// nodes to be well filled (with 32, clusters of 2000 and 5000 nodes end with 3 to 5 % more nodes), few
// enough that a failed launch delays little.
const maxWrongTypes = 64

// replaceWrongTypes replaces the node together with others of its pool that are the wrong instance
// type for their pods. All of them will be replaced sooner or later and each saves much: it
// matters that the new nodes are well filled, so the largest set is tried first.
func (s *replaceStage) replaceWrongTypes(n *node) bool {
	size, attempts := s.firstSize(n)
	for ; size > 1 && attempts > 0; size /= 2 {
		set := s.setAround(n, byWrongType, size)
		if len(set) <= size/2 {
			continue
		}
		attempts--
		if s.accept(&proposal{set: set}) {
			s.replacedAtOnce[n.Pool] = size
			return n.role == leaves
		}
	}
	s.replacedAtOnce[n.Pool] = 1
	return false
}

// firstSize is the size of the first set to try with the node, and how many sets to try at most. A
// size that was too large for one node is mostly too large for the nodes that follow, so only every
// eighth node begins with the largest size again. When the last try in the pool failed, that node
// tries only three sets.
func (s *replaceStage) firstSize(n *node) (size, attempts int) {
	last, tried := s.replacedAtOnce[n.Pool]
	switch again := n.queueIndex%8 == 0; {
	case !tried, again && last > 1:
		return maxWrongTypes, maxWrongTypes
	case again:
		return maxWrongTypes, 3
	}
	return last, maxWrongTypes
}

func byWrongType(n *node) string {
	if n.forecast == wrongType {
		return "wrong in " + n.Pool
	}
	return n.Pool
}

// groupHistory is what was learned from the nodes of a group that were considered before.
type groupHistory struct {
	grouping int // an index into groupings
	size     int // of the best set
	ratio    float64
	failures int // consecutive nodes without a move
}

// groupings are ways to group nodes, the closest first: pods that share a zone and a capacity type
// hardly get in each other's way.
func groupings() []func(*node) string {
	return []func(*node) string{byPoolZoneCapacityType, byPool, func(*node) string { return "" }}
}

func byPoolZoneCapacityType(n *node) string { return n.poolZoneCapacityType }

func byPool(n *node) string { return n.Pool }

// growSet doubles the set around the node while that saves more for what it disrupts.
func (s *replaceStage) growSet(n *node, best *proposal, history *groupHistory) *proposal {
	for i, group := range groupings() {
		worse := 0
		for size := 2; size <= maxSetSize && worse < 2; size *= 2 {
			set := s.setAround(n, group, size)
			if len(set) <= size/2 {
				break
			}
			next := betterOf(best, s.proposalOf(set))
			if next == best {
				worse++
				continue
			}
			best, worse, history.grouping, history.size = next, 0, i, size
		}
	}
	return best
}

// betterOf is the proposal that saves more for what it disrupts, the smaller one when they are
// about as good.
func betterOf(a, b *proposal) *proposal {
	if a == nil || b != nil && b.ratio > a.ratio*1.02 {
		return b
	}
	return a
}

// setAround are up to size nodes of a group: the node and the next ones in the queue, as far as
// budgets allow their disruption together.
func (s *replaceStage) setAround(n *node, group func(*node) string, size int) []*node {
	set, own := []*node{n}, group(n)
	taken := map[string]int{n.Pool: 1}
	for _, o := range s.queue[n.queueIndex+1:] {
		if len(set) == size {
			break
		}
		if !o.removable() || group(o) != own || o.waste < o.requiredSavings || o.price == 0 || taken[o.Pool] >= s.budgets.allowed(o.pool, Underutilized) || !s.mayJoin(n, o) {
			continue
		}
		taken[o.Pool]++
		set = append(set, o)
	}
	return set
}

// mayJoin keeps spot nodes out of sets of several nodes while spot may not be replaced by spot: in
// such a set they could be replaced by spot all the same. Karpenter has no such rule.
func (s *replaceStage) mayJoin(n, o *node) bool {
	return s.savings.in.Settings.SpotToSpot || s.savings.in.Settings.Upstream || !allSpot([]*node{n}) && !allSpot([]*node{o})
}

// proposeSingle makes a proposal for the node by itself, and records by how much a
// replacement is too expensive.
func (s *replaceStage) proposeSingle(n *node) *proposal {
	set := []*node{n}
	if kept := s.savings.spotToSpot(set); kept.Because != "" {
		n.keep(kept)
		return nil
	}
	d, mark := s.drafts.without(set, n.price+n.price/4)
	defer s.drafts.rollback(mark)
	switch {
	case d.OverMaxPrice():
		n.keep(replacementCostsMore(n, n.price/4, false))
	case d.Unplaced() > 0:
		n.keep(podsUnplaced(d))
	case n.price-d.Price() <= 0:
		n.keep(replacementCostsMore(n, d.Price()-n.price, true))
	case n.price-d.Price() < n.requiredSavings:
		n.keep(s.savings.tooSmall(set, n.price-d.Price(), 1))
	default:
		return newProposal(set, n.price-d.Price(), nil)
	}
	return nil
}

func newProposal(set []*node, saves offering.Price, d *schedule.Draft) *proposal {
	disruption := 0.0
	for _, n := range set {
		disruption += 1 + n.EvictionCost
	}
	return &proposal{set, saves, float64(saves) / disruption, d}
}

// knownProposal is a proposal that was made for the set; nil when it saved too little.
type knownProposal struct {
	set      []*node
	proposal *proposal
}

// proposalOf computes what replacing the nodes together would save; nil when that is too little.
// It remembers proposals, as the same set is proposed more than once.
func (s *replaceStage) proposalOf(set []*node) *proposal {
	for _, known := range s.proposals {
		if slices.Equal(known.set, set) {
			s.drafts.steps++
			return known.proposal
		}
	}
	p := s.evaluate(set)
	s.proposals = append(s.proposals, knownProposal{set, p})
	return p
}

// evaluate drafts the replacement of the nodes; nil when it saves too little.
func (s *replaceStage) evaluate(set []*node) *proposal {
	if s.savings.spotToSpot(set).Because != "" {
		return nil
	}
	before, required := priceOf(set), s.savings.required(set)
	if before <= required {
		return nil
	}
	d, mark := s.drafts.without(set, before-required)
	defer s.drafts.rollback(mark)
	if d.OverMaxPrice() || d.Unplaced() > 0 || before-d.Price() < required {
		return nil
	}
	return newProposal(set, before-d.Price(), d)
}

// keepIfRuledOut keeps the node, with the reason, if its price is unknown, its budget is used up or
// its Balanced pool would gain too little. It reports whether it did.
func (s *replaceStage) keepIfRuledOut(n *node) bool {
	switch {
	case n.price == 0:
		n.keep(Kept{Because: PriceUnknown, Detail: "The node's price is unknown"})
	case s.budgets.allowed(n.pool, Underutilized) == 0:
		s.budgets.keep(n, Underutilized)
		n.kept.WouldSave = max(0, n.waste)
	case s.savings.cannotReachThreshold(n):
		n.keep(scoreTooLow(n))
	default:
		return false
	}
	return true
}

// accept makes the move and adds it to the plan, unless it does not pay or conflicts with the
// plan.
func (s *replaceStage) accept(p *proposal) bool {
	m, kept := s.builder.build(p.set, p.draft)
	if !s.accepted.addOrKeep(p.set[0], m, kept) {
		return false
	}
	for _, n := range p.set {
		if n.role != leaves {
			if n.forecast == wrongType {
				n.forecast = keepExpected
			}
			n.keep(Kept{Because: ReceivesPods, Detail: "Nodes of its instance type go, and the node is kept instead of launching another one for their pods"})
		}
	}
	return true
}
