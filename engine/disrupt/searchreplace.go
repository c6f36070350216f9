// SPDX-License-Identifier: Apache-2.0

package disrupt

import (
	"cmp"
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
	moves    replacements

	queue     []*node         // see order
	proposals []answer        // since the last accepted move: see propose
	past      map[string]past // by samePlace
	// failedCheap counts, by place, the consecutive nodes that replaceCheap could not replace.
	failedCheap map[string]int
	// exchanged is how many nodes of the wrong instance type were replaced at once when
	// exchange last tried, by pool.
	exchanged map[string]int
}

// order lists the nodes that may be worth replacing: those first that waste most for what
// they disrupt.
func (s *replaceStage) order() []*node {
	ratio := func(n *node) float64 { return float64(n.waste) / (1 + n.Cost) }
	s.queue = s.queue[:0]
	for _, n := range s.nodes.all {
		if n.info != nil {
			s.queue = append(s.queue, n)
		}
	}
	slices.SortStableFunc(s.queue, func(x, y *node) int { return cmp.Compare(ratio(y), ratio(x)) })
	for i, n := range s.queue {
		n.rank = i
	}
	return s.queue
}

// mostMates bounds the nodes of one move: with more nodes the saving of each hardly grows, and a
// move can fail as a whole.
const mostMates = 32

// proposal is a set of nodes that may be removed together, and what that would save.
type proposal struct {
	set   []*node
	saves offering.Price
	ratio float64 // saves divided by the disruption cost
	// draft is what replaces the nodes within the maximum price of such a move; nil when it was
	// not made.
	draft *schedule.Draft
}

// look looks for the best move that removes the node: alone, or with others that waste as
// much, as long as larger sets save more for what they disrupt.
func (s *replaceStage) look(n *node) {
	if !n.removable() || !s.payable(n) {
		return
	}
	if n.waste < n.least {
		s.replaceCheap(n)
		return
	}
	clear(s.proposals)
	s.proposals = s.proposals[:0]
	if n.forecast == wrongType && s.exchange(n) {
		return
	}
	best := s.alone(n)
	group := samePlace(n)
	past := s.past[group]
	switch {
	case past.size > 1: // the size that paid last mostly pays again
		best = s.better(best, s.propose(s.mates(n, kinds()[past.kind], past.size)))
		if best != nil && best.ratio >= 0.9*past.ratio {
			break
		}
		fallthrough
	case past.failures < mostFailures || n.rank%8 == 0:
		best = s.grow(n, best, &past)
	}
	if best == nil {
		past.failures++
		s.past[group] = past
		return
	}
	past.failures = 0
	past.ratio = best.ratio
	if len(best.set) == 1 {
		past.size = 1
	}
	if !s.accept(best) {
		past.failures++
	}
	s.past[group] = past
}

// replaceCheap replaces a node that wastes less than a replacement must save. The waste is no
// upper bound when other nodes have free capacity: pods that fit there need no new node, and
// the shadow prices do not include it. Where hardly any node of a place found such capacity,
// only every eighth node is tried.
func (s *replaceStage) replaceCheap(n *node) {
	if s.failedCheap[n.place] < mostFailures || n.rank%8 == 0 {
		b := s.ask([]*node{n})
		if b != nil && s.accept(b) {
			s.failedCheap[n.place] = 0
			return
		}
		s.failedCheap[n.place]++
		if b != nil {
			return // accept said why
		}
	}
	if n.kept.Because != RehearsalFailed && n.kept.Because != NeededByOtherMove { // its removal may have failed
		n.stays(frugal(n))
	}
}

// mostFailures is how many nodes of a kind are tried in sets without success before the others
// are tried alone.
const mostFailures = 4

// mostExchanged is how many nodes of the wrong instance type are replaced at once: enough for
// the new nodes to be well filled, few enough that a failed launch delays little.
const mostExchanged = 32

// exchange replaces the node together with others of its pool that are the wrong instance type
// for their pods. All of them will be replaced sooner or later and each saves much: it matters
// that the new nodes are well filled, so the largest set is tried first. A size that was too
// large for one node is mostly too large for the nodes that follow.
func (s *replaceStage) exchange(n *node) bool {
	size, tried := s.exchanged[n.Pool]
	if !tried || n.rank%8 == 0 {
		size = mostExchanged
	}
	for ; size > 1; size /= 2 {
		set := s.mates(n, wrongHere, size)
		if len(set) <= size/2 {
			continue
		}
		if s.accept(&proposal{set: set}) {
			s.exchanged[n.Pool] = size
			return n.inMove == leaves
		}
	}
	s.exchanged[n.Pool] = size
	return false
}

func wrongHere(n *node) string {
	if n.forecast == wrongType {
		return "wrong in " + n.Pool
	}
	return n.Pool
}

// past is what was learned from nodes of a kind.
type past struct {
	kind, size int
	ratio      float64
	failures   int
}

// kinds are ways to group nodes, the closest first: pods that share a zone and a capacity type
// hardly get in each other's way.
func kinds() []func(*node) string {
	return []func(*node) string{samePlace, samePool, func(*node) string { return "" }}
}

func samePlace(n *node) string { return n.place }

func samePool(n *node) string { return n.Pool }

// grow doubles the set around the node while that saves more for what it disrupts.
func (s *replaceStage) grow(n *node, best *proposal, p *past) *proposal {
	for at, kind := range kinds() {
		worse := 0
		for size := 2; size <= mostMates && worse < 2; size *= 2 {
			set := s.mates(n, kind, size)
			if len(set) <= size/2 {
				break
			}
			next := s.better(best, s.propose(set))
			if next == best {
				worse++
				continue
			}
			best, worse, p.kind, p.size = next, 0, at, size
		}
	}
	return best
}

// better is the proposal that saves more for what it disrupts, the smaller one when they are
// about as good.
func (s *replaceStage) better(a, b *proposal) *proposal {
	if a == nil || b != nil && b.ratio > a.ratio*1.02 {
		return b
	}
	return a
}

// mates are up to size nodes of a kind: the node and the next ones in the queue, as far as
// budgets allow their disruption together.
func (s *replaceStage) mates(n *node, kind func(*node) string, size int) []*node {
	set, of := []*node{n}, kind(n)
	taken := map[string]int{n.Pool: 1}
	for _, o := range s.queue[n.rank+1:] {
		if len(set) == size {
			break
		}
		if !o.removable() || kind(o) != of || o.waste < o.least || o.price == 0 || taken[o.Pool] >= s.budgets.room(o.pool, Underutilized) || !s.goesWith(n, o) {
			continue
		}
		taken[o.Pool]++
		set = append(set, o)
	}
	return set
}

// goesWith keeps spot nodes out of sets with others while spot may not be replaced by spot: in
// such a set they could be replaced by spot all the same. Karpenter has no such rule.
func (s *replaceStage) goesWith(n, o *node) bool {
	return s.savings.c.Settings.SpotToSpot || s.savings.c.Settings.Upstream || !allSpot([]*node{o})
}

// alone makes a proposal for the node by itself, and notes by how much a replacement is too
// expensive.
func (s *replaceStage) alone(n *node) *proposal {
	set := []*node{n}
	if left := s.savings.spotToSpot(set); left.Because != "" {
		n.stays(left)
		return nil
	}
	least := n.least
	d, mark := s.drafts.without(set, n.price+n.price/4)
	defer s.drafts.rollback(mark)
	switch {
	case d.OverMaxPrice():
		n.stays(dearer(n, n.price/4, false))
	case d.Unplaced() > 0:
		n.stays(stranded(d))
	case n.price-d.Price() <= 0:
		n.stays(dearer(n, d.Price()-n.price, true))
	case n.price-d.Price() < least:
		n.stays(spare(n, n.price-d.Price(), least))
	default:
		return newProposal(set, n.price-d.Price(), nil)
	}
	return nil
}

func newProposal(set []*node, saves offering.Price, d *schedule.Draft) *proposal {
	disturbs := 0.0
	for _, n := range set {
		disturbs += 1 + n.Cost
	}
	return &proposal{set, saves, float64(saves) / disturbs, d}
}

// answer is a proposal that was made for the set; nil when it saved too little.
type answer struct {
	set []*node
	bid *proposal
}

// propose computes what replacing the nodes together would save; nil when that is too little. It
// remembers the answers, as the same set is proposed more than once.
func (s *replaceStage) propose(set []*node) *proposal {
	for _, known := range s.proposals {
		if slices.Equal(known.set, set) {
			s.drafts.steps++
			return known.bid
		}
	}
	b := s.ask(set)
	s.proposals = append(s.proposals, answer{set, b})
	return b
}

func (s *replaceStage) ask(set []*node) *proposal {
	if s.savings.spotToSpot(set).Because != "" {
		return nil
	}
	before, least := cost(set), s.savings.least(set)
	if before <= least {
		return nil
	}
	d, mark := s.drafts.without(set, before-least)
	defer s.drafts.rollback(mark)
	if d.OverMaxPrice() || d.Unplaced() > 0 || before-d.Price() < least {
		return nil
	}
	return newProposal(set, before-d.Price(), d)
}

// payable reports whether replacing the node can pay at all, and notes why not.
func (s *replaceStage) payable(n *node) bool {
	switch {
	case n.price == 0:
		n.stays(Kept{Because: PriceUnknown, Detail: "The node's price is unknown"})
	case s.budgets.room(n.pool, Underutilized) == 0:
		s.budgets.refuse(n, Underutilized)
		n.kept.Costs = max(0, n.waste)
	case s.savings.hopeless(n):
		n.stays(poor(n))
	default:
		return true
	}
	return false
}

// accept writes the move and takes it, unless it does not pay or conflicts with the plan.
func (s *replaceStage) accept(b *proposal) bool {
	m, left := s.moves.of(b.set, b.draft)
	if left.Because == "" {
		left = s.accepted.take(m)
	}
	if left.Because != "" {
		b.set[0].stays(left)
		return false
	}
	for _, n := range b.set {
		if n.inMove != leaves {
			n.stays(Kept{Because: ReceivesPods, Detail: "Nodes of its instance type go, and the node is kept instead of launching another one for their pods"})
		}
	}
	return true
}
