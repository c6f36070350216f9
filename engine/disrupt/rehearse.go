package disrupt

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offer"
	"github.com/karve-dev/karve/engine/reason"
	"github.com/karve-dev/karve/engine/world"
)

// rehearse says why a consolidation must not be made: kube-scheduler, which knows nothing of
// plans, spreads the pods over what is emptiest, they take the room that others were to have, and what
// must be bought for those costs more than the move saves. Later moves
// would take that away again, and so on for ever. So a move is made only when the cluster is cheaper
// with what is bought then, too (Rule 133). The floor is left as it is then.
func (s *search) rehearse(m *Move) Left {
	if s.floor == nil || m.Cause != Underutilized {
		return Left{}
	}
	set := s.setOf(m)
	log, seats := len(s.floor.log), len(s.floor.seats)
	left := s.floor.rehearse(m, set).objection()
	if left.Because != "" {
		s.floor.back(log, seats)
	}
	s.floor.log = s.floor.log[:0]
	return left
}

// perform lets the pods of a move that will be made go where kube-scheduler would put them.
func (s *search) perform(m *Move) {
	if s.floor == nil {
		return
	}
	set := s.setOf(m)
	s.floor.meet(set)
	s.floor.act(m, set, likeliest())
	s.floor.log = s.floor.log[:0]
}

// outcome is what became of a move: what it saves per hour with what was bought for it, and what is
// bought besides. Some pods may be homeless even so.
type outcome struct {
	saves, extra offer.Price
	homeless     bool
}

// worse is the outcome that speaks more against the move.
func (o outcome) worse(other outcome) outcome {
	if other.homeless && !o.homeless || other.homeless == o.homeless && other.saves-other.extra < o.saves-o.extra {
		return other
	}
	return o
}

// objection says why the move does not pay.
func (o outcome) objection() Left {
	switch {
	case o.homeless:
		return Left{Because: Scattered, Detail: "The scheduler may put pods where others were to go, and no machine can be bought for those"}
	case o.extra > 0 && o.saves <= o.extra:
		return Left{Because: Scattered, Costs: max(0, o.saves),
			Detail: fmt.Sprintf("The scheduler may put pods where others were to go: another $%s/h would be bought for those, and the move saves $%s/h", o.extra, o.saves),
			Facts:  reason.FactsOf(map[string]any{"saves": o.saves.String(), "more": o.extra.String()})}
	}
	return Left{}
}

// setOf are the nodes of the move that are there.
func (s *search) setOf(m *Move) []*node {
	var set []*node
	for _, key := range m.Nodes {
		if n := s.byKey[key]; n != nil && n.host != nil {
			set = append(set, n)
		}
	}
	return set
}

// way is one way in which a move may go: in which order pods of several nodes leave, what the
// scheduler likes, and which of its choices each launch becomes.
type way struct {
	order  order
	taste  taste
	choice func([]offer.Choice) offer.Choice
}

// order says when pods of several nodes leave, given those of each.
type order func(nodes [][]evicted) []evicted

// likeliest is the way in which a move most likely goes. What is decided after it counts on that.
func likeliest() way { return way{mixed, taste{}, firstOf} }

// usual are the ways that are as likely: nodes are drained side by side, and nobody knows who is
// faster. The likeliest is the last.
func usual(nodes int) []way {
	if nodes == 1 {
		return []way{likeliest()}
	}
	return []way{{nodeByNode, taste{}, firstOf}, likeliest()}
}

// unusual are others that are as possible: nobody knows all that the scheduler weighs, and what is in
// stock.
func unusual(m *Move, nodes int) []way {
	orders := []order{mixed}
	if nodes > 1 {
		orders = append(orders, nodeByNode, lastNodeFirst)
	}
	var out []way
	for _, o := range orders {
		for _, t := range []taste{{asItIs: true, spiteful: true}, {asItIs: true}, {spiteful: true}} {
			out = append(out, way{o, t, firstOf})
			if len(m.Launches) > 0 {
				out = append(out, way{o, t, lastOf})
			}
		}
	}
	return out
}

func firstOf(choices []offer.Choice) offer.Choice { return choices[0] }

func lastOf(choices []offer.Choice) offer.Choice { return choices[len(choices)-1] }

// rehearse lets the nodes of the move go and their pods sit down, one by one, in the order in which
// they are evicted: of each node the largest first. It may go in several ways, and the worst
// counts; the floor is left as after the likeliest. Unusual ones are looked at only where a few
// machines more or less decide.
func (f *floor) rehearse(m *Move, set []*node) outcome {
	f.meet(set)
	log, seats := len(f.log), len(f.seats)
	worst := outcome{saves: m.Saves()}
	try := func(ways []way) {
		for _, w := range ways {
			if worst.objection().Because != "" {
				return
			}
			f.back(log, seats)
			worst = worst.worse(f.act(m, set, w))
		}
	}
	try(usual(len(set)))
	if worst.saves-worst.extra < f.few(set) {
		try(unusual(m, len(set)))
		f.back(log, seats)
		f.act(m, set, likeliest())
	}
	return worst
}

// enough is how many machines a move saves that surely pays, whichever way it goes.
const enough = 4

// few is what some machines cost of the kinds that would be bought for single pods.
func (f *floor) few(set []*node) offer.Price {
	dearest := offer.Price(0)
	for _, n := range set {
		n.host.Movable(func(c *world.Class, _ []world.Ref) { dearest = max(dearest, f.dealOf(c.Shape).price) })
	}
	return enough * dearest
}

// act lets the move go one way. What finds no room is bought for.
func (f *floor) act(m *Move, set []*node, w way) outcome {
	plan, after := f.expect(m, w.choice)
	o := outcome{saves: m.Before - after}
	now, late := heldUp(w.order(f.evict(set, plan)))
	clear(f.wanted)
	for i := range now {
		f.count(&now[i], now[i].from, -1)
		f.wanted[now[i].meant]++
	}
	for i := range late {
		f.wanted[late[i].meant]++
	}
	for i := range now {
		f.settle(&now[i], w.taste, &o)
	}
	for i := range late {
		f.count(&late[i], late[i].from, -1)
		f.settle(&late[i], w.taste, &o)
	}
	return o
}

// settle finds a seat for the pod, or buys one.
func (f *floor) settle(p *evicted, t taste, o *outcome) {
	f.wanted[p.meant]--
	if at := f.best(p, t); at >= 0 {
		f.sit(p, at)
		return
	}
	d := f.dealFor(p)
	if d.market == nil {
		o.homeless = true
		return
	}
	o.extra = o.extra.Add(d.price)
	f.sit(p, f.buy(d.market, d.row))
}

func mixed(nodes [][]evicted) []evicted {
	out := slices.Concat(nodes...)
	largestFirst(out)
	return out
}

func nodeByNode(nodes [][]evicted) []evicted {
	for _, pods := range nodes {
		largestFirst(pods)
	}
	return slices.Concat(nodes...)
}

func lastNodeFirst(nodes [][]evicted) []evicted {
	slices.Reverse(nodes)
	return nodeByNode(nodes)
}

func largestFirst(pods []evicted) {
	slices.SortStableFunc(pods, func(x, y evicted) int { return cmp.Compare(y.share, x.share) })
}

// evicted is a pod that looks for a seat.
type evicted struct {
	*world.Class
	*manners
	from int // its seat
	// meant is the seat that the plan gives it: its own when there is none.
	meant int
	// share of its node that it asks for.
	share float64
	guard *Guard // nil when no budget holds it up
}

// expect opens seats for what the move buys, and says where it sends its pods, by UID, and what is
// paid for the seats.
func (f *floor) expect(m *Move, choose func([]offer.Choice) offer.Choice) (plan map[string]int, after offer.Price) {
	plan = make(map[string]int, m.Evictions)
	send := func(pods []world.Ref, at int) {
		for _, ref := range pods {
			plan[ref.UID] = at
		}
	}
	for _, home := range m.Homes {
		if at, ok := f.of[f.w.Host(home.Node)]; ok {
			send(home.Pods, at)
		}
	}
	for i := range m.Launches {
		l := &m.Launches[i]
		choice := choose(l.Choices)
		after = after.Add(choice.Price)
		if market, row := bought(f.w, l.Pool, choice); market != nil {
			send(l.Pods, f.buy(market, row))
		}
	}
	return plan, after
}

// bought finds what a launch becomes with that choice.
func bought(w *world.World, pool string, choice offer.Choice) (*world.Market, int) {
	m := market(w, pool)
	if m == nil {
		return nil, 0
	}
	for row := range m.Catalog.Rows {
		o := &m.Catalog.Rows[row]
		if o.Zone == choice.Zone && o.CapacityType == choice.CapacityType && m.Catalog.Types[o.Type].Name == choice.Type {
			return m, row
		}
	}
	return nil, 0
}

// evict closes the seats of the nodes and lists who must leave them, node by node.
func (f *floor) evict(set []*node, plan map[string]int) [][]evicted {
	out := make([][]evicted, len(set))
	for i, n := range set {
		at, ok := f.of[n.host]
		if !ok {
			continue
		}
		f.leave(at)
		s := &f.seats[at]
		add := func(c *world.Class, meant int, g *Guard) {
			out[i] = append(out[i], evicted{c, f.mannersOf(c), at, meant, s.block.share(&c.Requests), g})
		}
		guards := guardsOf(n)
		n.host.Movable(func(c *world.Class, pods []world.Ref) {
			for _, ref := range pods {
				meant, known := plan[ref.UID]
				if !known {
					meant = at
				}
				add(c, meant, guards[ref.UID])
			}
		})
		for _, c := range s.guests {
			add(c, at, nil)
		}
	}
	return out
}

func guardsOf(n *node) map[string]*Guard {
	if len(n.Guards) == 0 {
		return nil
	}
	out := map[string]*Guard{}
	for i := range n.Guards {
		for _, uid := range n.Guards[i].Pods {
			out[uid] = &n.Guards[i]
		}
	}
	return out
}

// heldUp tells apart whom a PodDisruptionBudget lets go only after others of theirs run again:
// meanwhile everybody else has sat down.
func heldUp(pods []evicted) (now, late []evicted) {
	gone := map[string]int{}
	now = pods[:0]
	for _, p := range pods {
		if p.guard != nil {
			if gone[p.guard.Budget]++; gone[p.guard.Budget] > p.guard.Allowed {
				late = append(late, p)
				continue
			}
		}
		now = append(now, p)
	}
	return now, late
}

// manners are what a class demands of its neighbours, as far as that is followed here: within a
// node, and where pods spread over zones or the like, exactly; else pods stay in the zone that the plan
// chose; and where that is not enough they sit where the plan has them.
type manners struct {
	fixed   bool
	within  []*constraint.Key
	spreads []spread
	avoids  []*world.Crowd     // their own anti-affinity, on one node
	shunned []*world.Repulsion // others' anti-affinity, on one node
	counted []*tally           // of the first so many that are known: those that count its pods
	known   int
}

func (f *floor) mannersOf(c *world.Class) *manners {
	m, known := f.manners[c]
	if !known {
		m = f.learn(c)
		f.manners[c] = m
	}
	return m
}

func (f *floor) learn(c *world.Class) *manners {
	m := &manners{fixed: len(c.Mounts) > 0 || len(c.Ports) > 0}
	keep := func(k *constraint.Key) {
		if k.Name == world.LabelHostname {
			m.fixed = true
		} else {
			m.within = append(m.within, k)
		}
	}
	for i := range c.Spreads {
		switch e := &c.Spreads[i]; {
		case e.Soft:
		case e.Key.Name == world.LabelHostname:
			m.fixed = true
		default:
			m.spreads = append(m.spreads, f.spreadOf(c, e))
		}
	}
	for _, n := range c.Affinity {
		if n.Weight == 0 {
			keep(n.Key)
		}
	}
	for _, n := range c.AntiAffinity {
		switch {
		case n.Weight > 0:
		case n.Key.Name == world.LabelHostname:
			m.avoids = append(m.avoids, n.Crowd)
		default:
			keep(n.Key)
		}
	}
	for _, r := range f.w.Repulsions {
		switch {
		case !r.Crowd.Has(c):
		case r.Key.Name == world.LabelHostname:
			m.shunned = append(m.shunned, r)
		default:
			keep(r.Key)
		}
	}
	return m
}

// near reports whether the block is where the pod must stay: in the zone or the like of the
// seat that the plan gives it.
func (f *floor) near(p *evicted, b *block) bool {
	meant := f.seats[p.meant].block
	for _, k := range p.within {
		v, ok := b.value(k)
		if want, known := meant.value(k); !ok || !known || v != want {
			return false
		}
	}
	return true
}

// suits reports whether neighbours let the pod sit there.
func (s *seat) suits(p *evicted) bool {
	if len(p.avoids)+len(p.shunned) == 0 {
		return true
	}
	for _, m := range s.crew {
		if p.clashes(m.Class) {
			return false
		}
	}
	return !slices.ContainsFunc(s.guests, p.clashes)
}

// clashes reports whether the pod and those of the class cannot share a node.
func (p *evicted) clashes(c *world.Class) bool {
	return slices.ContainsFunc(p.avoids, func(g *world.Crowd) bool { return g.Has(c) }) ||
		slices.ContainsFunc(p.shunned, func(r *world.Repulsion) bool { return r.Owned(c) })
}
