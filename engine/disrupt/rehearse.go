package disrupt

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offer"
	"github.com/karve-dev/karve/engine/pack"
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
	extra, homeless := s.floor.play(m, set)
	left := s.scattered(m, extra, homeless)
	if left.Because != "" {
		s.floor.back(log, seats)
	}
	s.floor.log = s.floor.log[:0]
	return left
}

// perform lets the pods of a move that will be made go where kube-scheduler would put them.
func (s *search) perform(m *Move) {
	if s.floor == nil || len(s.hostsOf(m)) == 0 { // what drains is in the World already
		return
	}
	s.floor.play(m, s.setOf(m))
	s.floor.log = s.floor.log[:0]
}

// scattered says why the move does not pay when so much more must be bought.
func (s *search) scattered(m *Move, extra offer.Price, homeless bool) Left {
	switch {
	case homeless:
		return Left{Because: Scattered, Detail: "The scheduler may put pods where others were to go, and no machine can be bought for those"}
	case extra > 0 && m.Saves() <= extra:
		return Left{Because: Scattered, Costs: max(0, m.Saves()),
			Detail: fmt.Sprintf("The scheduler may put pods where others were to go: another $%s/h would be bought for those, and the move saves $%s/h", extra, m.Saves()),
			Facts:  reason.FactsOf(map[string]any{"saves": m.Saves().String(), "more": extra.String()})}
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

// play lets the nodes of the move go and their pods sit down, one by one, in the order in which
// they are evicted: of each node the largest first. Nodes are drained side by side, and nobody
// knows who is faster: so pods of several come once mixed and once node after node, and the worse
// counts. What finds no room is bought for: extra is what that costs per hour. Some may be
// homeless even so.
func (f *floor) play(m *Move, set []*node) (extra offer.Price, homeless bool) {
	if len(set) > 1 {
		log, seats := len(f.log), len(f.seats)
		extra, homeless = f.act(m, set, nodeByNode)
		f.back(log, seats)
	}
	more, worse := f.act(m, set, mixed)
	return max(extra, more), homeless || worse
}

// act is one way in which the move may go.
func (f *floor) act(m *Move, set []*node, order func([][]evicted) []evicted) (extra offer.Price, homeless bool) {
	plan := f.expect(m)
	pods := heldUp(order(f.evict(set, plan)))
	for i := range pods {
		p := &pods[i]
		if at := f.best(p); at >= 0 {
			f.sit(p.Class, at)
			continue
		}
		d := f.dealFor(p.Shape)
		if d.market == nil {
			homeless = true
			continue
		}
		extra = extra.Add(d.price)
		f.sit(p.Class, f.buy(d.market, d.row))
	}
	return extra, homeless
}

// mixed and nodeByNode are in which order pods of several nodes leave.
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

func largestFirst(pods []evicted) {
	slices.SortStableFunc(pods, func(x, y evicted) int { return cmp.Compare(y.share, x.share) })
}

// evicted is a pod that looks for a seat.
type evicted struct {
	*world.Class
	*manners
	// meant is the seat that the plan gives it; -1 when there is none.
	meant int
	// share of its node that it asks for.
	share float64
	guard *Guard // nil when no budget holds it up
}

// expect opens seats for what the move buys, and says where it sends its pods, by UID.
func (f *floor) expect(m *Move) map[string]int {
	plan := make(map[string]int, m.Evictions)
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
		if market, row := bought(f.w, l); market != nil {
			send(l.Pods, f.buy(market, row))
		}
	}
	return plan
}

// bought finds what a launch most likely becomes: its first choice.
func bought(w *world.World, l *pack.Launch) (*world.Market, int) {
	m := market(w, l.Pool)
	if m == nil {
		return nil, 0
	}
	first := l.Choices[0]
	for row := range m.Catalog.Rows {
		o := &m.Catalog.Rows[row]
		if o.Zone == first.Zone && o.CapacityType == first.CapacityType && m.Catalog.Types[o.Type].Name == first.Type {
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
			out[i] = append(out[i], evicted{c, f.mannersOf(c), meant, s.block.share(&c.Requests), g})
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

// heldUp puts those last whom a PodDisruptionBudget lets go only after others of theirs run again:
// meanwhile everybody else has sat down.
func heldUp(pods []evicted) []evicted {
	gone := map[string]int{}
	var late []evicted
	first := pods[:0]
	for _, p := range pods {
		if p.guard != nil {
			if gone[p.guard.Budget]++; gone[p.guard.Budget] > p.guard.Allowed {
				late = append(late, p)
				continue
			}
		}
		first = append(first, p)
	}
	return append(first, late...)
}

// manners are what a class demands of its neighbours, as far as that is followed here: within a
// node exactly; within a zone or the like pods stay in that which the plan chose; and where that
// is not enough they sit where the plan has them.
type manners struct {
	fixed   bool
	within  []*constraint.Key
	avoids  []*world.Crowd     // their own anti-affinity, on one node
	shunned []*world.Repulsion // others' anti-affinity, on one node
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
		if !c.Spreads[i].Soft {
			keep(c.Spreads[i].Key)
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
