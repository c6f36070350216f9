package disrupt

import (
	"fmt"
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/reason"
)

// rehearse says why a consolidation must not be made. kube-scheduler does not know the plan: it
// puts pods on the emptiest nodes, where they take the free capacity that the plan has for others,
// and the nodes that must be launched for those others can cost more than the move saves. Later
// moves would remove these nodes again, without end. So a move is made only when the cluster is
// cheaper even with such launches (Rule CONSOLIDATION-20). After an objection the simulated
// scheduler is left as it was.
func (s *search) rehearse(m *Move) Kept {
	if s.sim == nil || m.Cause != Underutilized {
		return Kept{}
	}
	set := s.setOf(m)
	left := s.sim.rehearse(m, set).objection()
	if left.Because != "" {
		s.sim.back(0)
	}
	s.sim.keep()
	return left
}

// perform puts the pods of a move that will be made where kube-scheduler would put them.
func (s *search) perform(m *Move) {
	if s.sim == nil {
		return
	}
	s.sim.act(s.sim.gather(m, s.setOf(m)), likeliest())
	s.sim.keep()
}

// outcome is the result of a simulated move: what it saves per hour with its own launches, and
// what further launches cost. homeless is set when some pods find no node even so.
type outcome struct {
	saves, extra offering.Price
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
func (o outcome) objection() Kept {
	switch {
	case o.homeless:
		return Kept{Because: Scattered, Detail: "The scheduler may put pods where others were to go, and no machine can be bought for those"}
	case o.extra > 0 && o.saves <= o.extra:
		return Kept{Because: Scattered, Costs: max(0, o.saves),
			Detail: fmt.Sprintf("The scheduler may put pods where others were to go: another $%s/h would be bought for those, and the move saves $%s/h", o.extra, o.saves),
			Facts:  reason.FactsOf(map[string]any{"saves": o.saves.String(), "more": o.extra.String()})}
	}
	return Kept{}
}

// setOf are the nodes of the move that are in the snapshot.
func (s *search) setOf(m *Move) []*node {
	var set []*node
	for _, key := range m.Nodes {
		if n := s.byKey[key]; n != nil && n.host != nil {
			set = append(set, n)
		}
	}
	return set
}

// way is one way in which a move may go: the order in which pods of several nodes leave, the
// scheduler's score policy, and which of its offerings each launch becomes.
type way struct {
	order  order
	taste  scorePolicy
	choice func([]offering.Ref) offering.Ref
}

// likeliest is the way in which a move most likely goes. Later decisions assume it.
func likeliest() way { return way{mixed, scorePolicy{}, firstOf} }

// usual are the ways that are equally likely: nodes are drained side by side, and which one is
// faster is unknown. The likeliest is the last.
func usual(nodes int) []way {
	if nodes == 1 {
		return []way{likeliest()}
	}
	return []way{{nodeByNode, scorePolicy{}, firstOf}, likeliest()}
}

// unusual are other possible ways: not all of the scheduler's scores are known here, nor what is
// in stock.
func unusual(m *Move, nodes int) []way {
	orders := []order{mixed}
	if nodes > 1 {
		orders = append(orders, nodeByNode, lastNodeFirst)
	}
	var out []way
	for _, o := range orders {
		for _, t := range []scorePolicy{{scoreBefore: true, adversarial: true}, {scoreBefore: true}, {adversarial: true}} {
			out = append(out, way{o, t, firstOf})
			if len(m.Launches) > 0 {
				out = append(out, way{o, t, lastOf})
			}
		}
	}
	return out
}

func firstOf(choices []offering.Ref) offering.Ref { return choices[0] }

func lastOf(choices []offering.Ref) offering.Ref { return choices[len(choices)-1] }

// rehearse removes the nodes of the move and places their pods one by one, in the order in which
// they are evicted: of each node the largest first. It tries several ways, and the worst outcome
// counts. Without an objection the simulated scheduler is left as after the likeliest way. Unusual
// ways are tried only where a few nodes more or less decide.
func (f *schedSim) rehearse(m *Move, set []*node) outcome {
	p := f.gather(m, set)
	worst := outcome{saves: m.Saves()}
	try := func(ways []way) (fine bool) {
		for _, w := range ways {
			f.back(0)
			if worst = worst.worse(f.act(p, w)); worst.objection().Because != "" {
				return false
			}
		}
		return true
	}
	if !try(usual(len(set))) || worst.saves-worst.extra >= f.few(set) {
		return worst
	}
	likely := slices.Clone(f.log)
	if try(unusual(m, len(set))) {
		f.back(0)
		f.again(likely)
	}
	return worst
}

// enough is the saving, in nodes, from which a move pays whichever way it goes.
const enough = 4

// few is the price of that many nodes of the most expensive kind that single pods would need.
func (f *schedSim) few(set []*node) offering.Price {
	dearest := offering.Price(0)
	for _, n := range set {
		n.host.EachMovable(func(c *cluster.PodClass, _ []cluster.PodRef) { dearest = max(dearest, f.cheapestOf(c.PodShape).price) })
	}
	return enough * dearest
}

// act simulates the move in one way. Pods without free capacity get new nodes.
func (f *schedSim) act(p *evictions, w way) outcome {
	o := outcome{saves: p.move.Before - f.aim(p, w.choice)}
	for _, at := range p.from {
		f.leave(at)
	}
	now, late := p.queue(w.order)
	for _, e := range now {
		f.count(e, e.from, -1)
	}
	for i := range p.pods {
		f.wanted[p.pods[i].meant]++
	}
	for _, e := range now {
		f.placePod(e, w.taste, &o)
	}
	for _, e := range late {
		f.count(e, e.from, -1)
		f.placePod(e, w.taste, &o)
	}
	return o
}

// placePod finds a node for the pod, or launches one.
func (f *schedSim) placePod(p *evictedPod, t scorePolicy, o *outcome) {
	f.wanted[p.meant]--
	if at := f.best(p, t); at >= 0 {
		f.sit(p, at)
		return
	}
	d := f.cheapestFor(p)
	if d.market == nil {
		o.homeless = true
		return
	}
	o.extra = o.extra.Add(d.price)
	f.sit(p, f.buy(d.market, d.row))
}
