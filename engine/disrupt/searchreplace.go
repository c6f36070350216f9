package disrupt

import (
	"cmp"
	"slices"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/schedule"
)

// wasteful lists the nodes that may be worth replacing: those first that waste most for what
// they disrupt.
func (s *search) wasteful() []*node {
	ratio := func(n *node) float64 { return float64(n.waste) / (1 + n.Cost) }
	s.queue = s.queue[:0]
	for _, n := range s.nodes {
		if n.host != nil {
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

// proposal is a set of nodes that may go together, and what that would save.
type proposal struct {
	set   []*node
	saves offering.Price
	ratio float64 // saves divided by the disruption cost
	// draft is what replaces the nodes within the maximum price of such a move; nil when it was
	// not made.
	draft *schedule.Draft
}

// replace looks for the best move that removes the node: alone, or with others that waste as
// much, as long as larger sets save more for what they disrupt.
func (s *search) replace(n *node) {
	if !s.removable(n) || !s.payable(n) {
		return
	}
	if n.waste < n.least {
		s.lodge(n)
		return
	}
	clear(s.proposals)
	s.proposals = s.proposals[:0]
	if n.wrong && s.exchange(n) {
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

// lodge replaces a node that wastes less than a replacement must save. The waste is no upper bound
// when other nodes have free capacity: pods that fit there need no new node, and the shadow prices
// do not know of it. Where hardly any node of a place found such capacity, only every eighth node
// is tried.
func (s *search) lodge(n *node) {
	if s.unlodged[n.place] < mostFailures || n.rank%8 == 0 {
		b := s.ask([]*node{n})
		if b != nil && s.accept(b) {
			s.unlodged[n.place] = 0
			return
		}
		s.unlodged[n.place]++
		if b != nil {
			return // accept said why
		}
	}
	if n.kept.Because != Scattered && n.kept.Because != ReliedOn { // its removal may have failed
		n.stays(frugal(n))
	}
}

// mostFailures is how many nodes of a kind are tried in sets without success before the others
// are tried alone.
const mostFailures = 4

// mostExchanged is how many nodes of the wrong instance type go at once: enough for the new nodes
// to be well filled, few enough that a failed launch delays little.
const mostExchanged = 32

// exchange replaces the node together with others of its pool that are the wrong instance type for
// their pods. All of them go sooner or later and each saves much: what counts is that the new
// nodes are well filled, so the largest set is tried first. A size that was too large for one node
// is mostly too large for the nodes that follow.
func (s *search) exchange(n *node) bool {
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
			return n.gone
		}
	}
	s.exchanged[n.Pool] = size
	return false
}

func wrongHere(n *node) string {
	if n.wrong {
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
func (s *search) grow(n *node, best *proposal, p *past) *proposal {
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
func (s *search) better(a, b *proposal) *proposal {
	if a == nil || b != nil && b.ratio > a.ratio*1.02 {
		return b
	}
	return a
}

// mates are up to size nodes of a kind: the node and those that come next in the queue, as far
// as budgets let them go together.
func (s *search) mates(n *node, kind func(*node) string, size int) []*node {
	set, of := []*node{n}, kind(n)
	taken := map[string]int{n.Pool: 1}
	for _, o := range s.queue[n.rank+1:] {
		if len(set) == size {
			break
		}
		if !s.removable(o) || kind(o) != of || o.waste < o.least || o.price == 0 || taken[o.Pool] >= s.room(o.pool, Underutilized) || !s.goesWith(n, o) {
			continue
		}
		taken[o.Pool]++
		set = append(set, o)
	}
	return set
}

// goesWith keeps spot nodes out of sets with others while spot may not be replaced by spot: in
// such a set they could be replaced by spot all the same. Karpenter has no such rule.
func (s *search) goesWith(n, o *node) bool {
	return s.c.Settings.SpotToSpot || s.c.Settings.Upstream || !allSpot([]*node{o})
}

// alone makes a proposal for the node by itself, and notes by how much a replacement is too
// expensive.
func (s *search) alone(n *node) *proposal {
	set := []*node{n}
	if left := s.spot(set); left.Because != "" {
		n.stays(left)
		return nil
	}
	least := n.least
	d, mark := s.draftWithout(set, n.price+n.price/4)
	defer s.whatIf.RollbackTo(mark)
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
func (s *search) propose(set []*node) *proposal {
	for _, known := range s.proposals {
		if slices.Equal(known.set, set) {
			s.steps++
			return known.bid
		}
	}
	b := s.ask(set)
	s.proposals = append(s.proposals, answer{set, b})
	return b
}

func (s *search) ask(set []*node) *proposal {
	if s.spot(set).Because != "" {
		return nil
	}
	before, least := cost(set), Least(s.parts(set), s.c.Settings)
	if before <= least {
		return nil
	}
	d, mark := s.draftWithout(set, before-least)
	defer s.whatIf.RollbackTo(mark)
	if d.OverMaxPrice() || d.Unplaced() > 0 || before-d.Price() < least {
		return nil
	}
	return newProposal(set, before-d.Price(), d)
}

func cost(set []*node) offering.Price {
	var sum offering.Price
	for _, n := range set {
		sum = sum.Add(n.price)
	}
	return sum
}

// payable reports whether replacing the node can pay at all, and notes why not.
func (s *search) payable(n *node) bool {
	switch {
	case n.price == 0:
		n.stays(Kept{Because: Unpriced, Detail: "Nobody knows what the node costs"})
	case s.room(n.pool, Underutilized) == 0:
		s.refused(n, Underutilized)
		n.kept.Costs = max(0, n.waste)
	case Hopeless(n.Node, n.pool, n.price, s.totals[n.Pool]):
		n.stays(poor(n))
	default:
		return true
	}
	return false
}

// accept writes the move and takes it, unless it does not pay or conflicts with the plan.
func (s *search) accept(b *proposal) bool {
	m, left := s.write(b.set, b.draft)
	if left.Because == "" {
		left = s.take(m)
	}
	if left.Because != "" {
		b.set[0].stays(left)
		return false
	}
	for _, n := range b.set {
		if !n.gone {
			n.stays(Kept{Because: Receives, Detail: "Nodes like it go, and it is kept in place of one that would be bought for their pods"})
		}
	}
	return true
}

// draft plans what replaces the nodes; Kept says why nothing can. Preferences of pods take several
// plans to find out, and hardly ever make up for what is wrong with the plan that honours none. So
// the plan without preferences is checked first. When it would launch the offering of one of the
// nodes, that node is returned as kept, with no plan. d is the draft if it was made already.
func (s *search) draft(set []*node, purse offering.Price, d *schedule.Draft) (plan schedule.Plan, kept *node, left Kept) {
	mark := s.vacate(set)
	defer s.whatIf.RollbackTo(mark)
	if d == nil {
		d = schedule.NewDraft(s.whatIf.Snapshot(), purse)
	}
	if d.OverMaxPrice() || d.Unplaced() > 0 {
		return plan, nil, dearer(set[0], 0, false)
	}
	launches := slices.Clone(d.Launches())
	if len(set) > 1 && !s.decided {
		kept = same(launches, set)
	}
	if left = s.cut(launches, set, purse); left.Because != "" || kept != nil {
		return plan, kept, left
	}
	plan = d.Plan()
	if len(set) > 1 && !s.decided {
		kept = same(plan.Launches, set)
	}
	return plan, kept, left
}

// redraft plans what replaces the nodes, whatever is launched.
func (s *search) redraft(set []*node, purse offering.Price) schedule.Plan {
	d, mark := s.draftWithout(set, purse)
	defer s.whatIf.RollbackTo(mark)
	return d.Plan()
}

// write makes a move that replaces the nodes; Kept says why there is none. A draft that was made
// before is valid as long as no other move was taken.
func (s *search) write(set []*node, d *schedule.Draft) (Move, Kept) {
	before, least := cost(set), Least(s.parts(set), s.c.Settings)
	if left := s.spot(set); left.Because != "" {
		return Move{}, left
	}
	if before <= least {
		return Move{}, spare(set[0], 0, least)
	}
	plan, kept, left := s.draft(set, before-least, d)
	if kept != nil {
		rest := slices.DeleteFunc(slices.Clone(set), func(n *node) bool { return n == kept })
		if m, left := s.write(rest, nil); left.Because == "" {
			return m, left
		}
	}
	if left.Because != "" {
		return Move{}, left
	}
	if kept != nil && len(plan.Launches) == 0 {
		plan = s.redraft(set, before-least)
	}
	if s.c.Settings.Upstream && len(plan.Launches) > 1 {
		return Move{}, Kept{Because: NotCheaper, Detail: many(len(plan.Launches))}
	}
	if left := s.exhausted(plan.Launches); left.Because != "" {
		return Move{}, left
	}
	if left := s.cut(plan.Launches, set, before-least); left.Because != "" {
		return Move{}, left
	}
	if left := s.overdrawn(plan.Launches); left.Because != "" {
		return Move{}, left
	}
	m := s.draw(Underutilized, set, plan)
	if !Pays(s.parts(set), m.Before, m.After, len(m.Launches), s.c.Settings) {
		return Move{}, spare(set[0], m.Saves(), least)
	}
	scores, approved := Balance(s.parts(set), m.Saves(), s.totals)
	if !approved {
		return Move{}, poor(set[0])
	}
	m.Score = scores
	return m, Kept{}
}
