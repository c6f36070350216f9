package disrupt

import (
	"math"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
)

// schedSim is the cluster as kube-scheduler sees it. It includes the nodes that take pods, those
// that the search cordons for its own reasons, and the nodes that its moves launch. It puts pods
// on the nodes that kube-scheduler scores highest; see scorePolicy.
type schedSim struct {
	w     *cluster.Snapshot
	nodes []simNode
	of    map[*cluster.NodeInfo]int
	// asked are the labels by which pods select nodes.
	asked   []*constraint.Key
	groups  []*nodeGroup
	groupOf map[nodeGroupKey]*nodeGroup

	doors        map[*cluster.PodShape]*door
	podRules     map[*cluster.PodClass]*podRules
	cheapest     map[*cluster.PodShape]cheapestOffering
	rows         map[offeringKey]cheapestOffering // see rowOf
	domainCounts []*domainCount
	crews        map[*cluster.PodClass][]crew // see crewsOf
	wanted       []int                        // by node: how many planned pods have yet to come
	reach        []float64                    // scratch: see best
	evictions    evictions                    // scratch: see gather
	log          []change
}

// scorePolicy is how kube-scheduler scores nodes, as far as this simulation follows it.
// kube-scheduler adds up many scores, some of which are not known here (images, balance, how
// many pods of the same owner a node has). The highest weight is on the share of cpu and memory
// that is free once the pod is there. Where nodes differ in size, other scores may favour the
// node that is emptiest before. Scores are whole numbers up to 100, so many are equal;
// kube-scheduler then takes any of the nodes.
type scorePolicy struct {
	scoreBefore bool // score how empty a node is before the pod is there
	adversarial bool // of about equal nodes take one that is meant for other pods
}

// about is how far apart the scores of nodes may be that whole numbers make equal: one of 100, for
// cpu and memory together.
const about = 0.02

// simNode is a node, or a node to be launched.
type simNode struct {
	host    *cluster.NodeInfo // nil for a node to be launched
	free    quantity.Vector
	group   *nodeGroup
	running []cluster.ClassCount // the pods there at the start
	arrived []*cluster.PodClass  // the pods that came
	empty   float64              // how empty it is, as its group has it; see nodeGroup.share
	open    bool
	left    bool // all its pods left
}

func newSchedSim(w *cluster.Snapshot) *schedSim {
	f := &schedSim{w: w, of: make(map[*cluster.NodeInfo]int, len(w.Nodes)), asked: w.LabelsUsed(), groupOf: map[nodeGroupKey]*nodeGroup{},
		doors: map[*cluster.PodShape]*door{}, podRules: map[*cluster.PodClass]*podRules{}, cheapest: map[*cluster.PodShape]cheapestOffering{}, rows: map[offeringKey]cheapestOffering{}}
	f.nodes = make([]simNode, 0, len(w.Nodes)+len(w.Nodes)/8)
	for _, h := range w.Nodes {
		if h.Initialized && h.Index >= 0 {
			f.of[h] = f.add(simNode{host: h, group: f.groupWith(h), free: h.Free, running: h.PodsByClass()})
		}
	}
	return f
}

// add adds a node. A node that cannot take even the smallest pod is not open.
func (f *schedSim) add(s simNode) int {
	at := len(f.nodes)
	s.empty = s.group.share(&s.free)
	s.open = s.roomy()
	if f.nodes = append(f.nodes, s); s.open {
		s.group.put(s.slot(at))
	}
	if len(f.wanted) < len(f.nodes) {
		f.wanted = append(f.wanted, 0)
	}
	if s.group.seats++; s.group.seats == 1 {
		f.appear(s.group, 1)
	}
	return at
}

// remove removes the node that was added last.
func (f *schedSim) remove() {
	at := len(f.nodes) - 1
	s := &f.nodes[at]
	if s.open {
		s.group.take(s.slot(at))
	}
	if s.group.seats--; s.group.seats == 0 {
		f.appear(s.group, -1)
	}
	f.nodes = f.nodes[:at]
}

// buy adds a node of that offering.
func (f *schedSim) buy(m *cluster.PoolCatalog, row int) int {
	f.log = append(f.log, change{deed: buying, market: m, row: row})
	return f.add(simNode{group: f.groupFor(m, row), free: m.Allocatable[row]})
}

// roomy reports whether the node can take a further pod, however small.
func (s *simNode) roomy() bool { return s.free[quantity.Pods] >= 1 }

// slot is the node's entry in its group.
func (s *simNode) slot(at int) slot {
	return slot{at, s.empty, s.free[quantity.CPU], s.free[quantity.Memory]}
}

func (s *simNode) holds(c *cluster.PodClass) bool {
	for _, d := range c.Dims {
		if s.free[d] < c.Requests[d] {
			return false
		}
	}
	return true
}

// leave closes a node: its pods look for others.
func (f *schedSim) leave(at int) {
	s := &f.nodes[at]
	f.log = append(f.log, change{deed: leaving, at: at, open: s.open, left: s.left})
	if s.open {
		s.group.take(s.slot(at))
	}
	s.open, s.left = false, true
}

// sit places a pod on an open node and counts it.
func (f *schedSim) sit(p *evictedPod, at int) {
	f.seat(p, at)
	f.count(p, at, 1)
}

// seat is sit without domain counts.
func (f *schedSim) seat(p *evictedPod, at int) {
	f.log = append(f.log, change{deed: sitting, at: at, pod: p})
	f.nodes[at].arrived = append(f.nodes[at].arrived, p.PodClass)
	p.seats = append(p.seats, at)
	f.fill(at, p.PodClass, -1)
}

// fill takes the pod's requests off the node's free capacity, or gives them back.
func (f *schedSim) fill(at int, c *cluster.PodClass, by int64) {
	s := &f.nodes[at]
	was := s.slot(at)
	for _, d := range c.Dims {
		s.free[d] += by * c.Requests[d]
	}
	s.empty = s.group.share(&s.free)
	now := s.roomy()
	switch {
	case s.open && now:
		s.group.move(was, s.slot(at))
	case s.open:
		s.group.take(was)
	case now:
		s.group.put(s.slot(at))
	}
	s.open = now
}

// best is the node that kube-scheduler scores highest for the pod; -1 when none fits. It first
// looks at the group whose emptiest node would score highest: most other groups then have none
// as good.
func (f *schedSim) best(p *evictedPod, t scorePolicy) int {
	found, most := f.planned(p, t)
	if p.fixed {
		return found
	}
	blocks := f.open(p.door, p.PodShape)
	first, reach := -1, most
	f.reach = f.reach[:0]
	for i, b := range blocks {
		r := b.emptiest() - t.dislikes(b.share(&p.Requests)) + t.leeway()
		f.reach = append(f.reach, r)
		if r >= reach && f.near(p, b) && p.even(b) {
			first, reach = i, r
		}
	}
	if first < 0 {
		return found
	}
	found, most = f.emptiest(blocks[first], p, t, found, most)
	for i, b := range blocks {
		if f.reach[i] >= most && i != first && f.near(p, b) && p.even(b) {
			found, most = f.emptiest(b, p, t, found, most)
		}
	}
	return found
}

// dislikes is how much the policy subtracts for the share that the pod fills.
func (t scorePolicy) dislikes(fills float64) float64 {
	if t.scoreBefore {
		return 0
	}
	return fills
}

// leeway is the highest bonus that harm adds to a score.
func (t scorePolicy) leeway() float64 {
	if t.adversarial {
		return about
	}
	return 0
}

// harm is the bonus of a node whose free capacity is meant for other pods.
func (f *schedSim) harm(at int, t scorePolicy) float64 {
	if t.adversarial && f.wanted[at] > 0 {
		return about
	}
	return 0
}

// planned is the node that the plan has for the pod, if the pod fits, and its score.
func (f *schedSim) planned(p *evictedPod, t scorePolicy) (found int, most float64) {
	s := &f.nodes[p.meant]
	if !s.open || s.free[quantity.CPU] < p.Requests[quantity.CPU] || s.free[quantity.Memory] < p.Requests[quantity.Memory] ||
		!s.holds(p.PodClass) || !f.lets(s, p) || !p.fixed && !p.even(s.group) {
		return -1, math.Inf(-1)
	}
	return p.meant, s.group.share(&s.free) - t.dislikes(s.group.share(&p.Requests)) + f.harm(p.meant, t)
}

// emptiest finds the emptiest node of the group that takes the pod, if its score beats the score
// of the node found so far.
func (f *schedSim) emptiest(b *nodeGroup, p *evictedPod, t scorePolicy, found int, most float64) (int, float64) {
	cpu, memory := p.Requests[quantity.CPU], p.Requests[quantity.Memory]
	fills := b.share(&p.Requests)
	dislikes, leeway := t.dislikes(fills), t.leeway()
	for i := range b.slots {
		stand := &b.slots[i]
		if stand.empty-dislikes+leeway < most || stand.empty < fills {
			break
		}
		if stand.cpu < cpu || stand.memory < memory {
			continue
		}
		likes := stand.empty - dislikes + f.harm(stand.at, t)
		if likes < most || likes == most && !t.between(stand.at, found) {
			continue
		}
		if f.takes(&f.nodes[stand.at], p) {
			found, most = stand.at, likes
		}
	}
	return found, most
}

// between decides which of two equal nodes is taken: the first or the last.
func (t scorePolicy) between(at, found int) bool {
	if t.adversarial {
		return at >= found
	}
	return at <= found
}

// takes reports whether the pod fits there and no rule of a pod forbids it.
func (f *schedSim) takes(s *simNode, p *evictedPod) bool {
	return s.holds(p.PodClass) && (!p.UsesHostname || f.lets(s, p)) && s.suits(p)
}

// cheapestOffering is the cheapest offering for a pod; without a market there is none.
type cheapestOffering struct {
	market *cluster.PoolCatalog
	row    int
	price  offering.Price
}

// cheapestFor is what would be launched for the pod alone. Its price is an upper bound, as pods
// that need new nodes at the same time share them.
func (f *schedSim) cheapestFor(p *evictedPod) cheapestOffering {
	if len(p.within)+len(p.spreads) == 0 {
		return f.cheapestOf(p.PodShape)
	}
	return f.findCheapest(p.PodShape, func(m *cluster.PoolCatalog, row int) bool { return f.suitable(p, m, row) })
}

// cheapestOf is the cheapest offering for pods of the shape, in any domain.
func (f *schedSim) cheapestOf(shape *cluster.PodShape) cheapestOffering {
	d, known := f.cheapest[shape]
	if !known {
		d = f.findCheapest(shape, func(*cluster.PoolCatalog, int) bool { return true })
		f.cheapest[shape] = d
	}
	return d
}

// findCheapest looks through pools by weight, highest first, as a launch does.
func (f *schedSim) findCheapest(shape *cluster.PodShape, suits func(m *cluster.PoolCatalog, row int) bool) (best cheapestOffering) {
	for _, m := range f.w.Catalogs {
		if best.market != nil && m.Pool.Weight < best.market.Pool.Weight {
			break
		}
		if m.Pool.Blocked != "" || m.Pool.Static || m.NodesLeft == 0 {
			continue
		}
		for row := range m.Compatible(shape).All.All() { // sorted by price
			o := &m.Catalog.Offerings[row]
			if best.market != nil && o.Price >= best.price {
				break
			}
			if o.Unavailable == "" && suits(m, row) {
				best = cheapestOffering{m, row, o.Price}
				break
			}
		}
	}
	return best
}

// suitable reports whether the offering lies in the domains where the pod must be, as far as that
// is known before the launch.
func (f *schedSim) suitable(p *evictedPod, m *cluster.PoolCatalog, row int) bool {
	meant := f.nodes[p.meant].group
	for _, k := range p.within {
		v, known := valueOf(m, row, k)
		if want, ok := meant.value(k); known && ok && v != want {
			return false
		}
	}
	for i := range p.spreads {
		if v, known := valueOf(m, row, p.spreads[i].key); known && !p.spreads[i].lets(v) {
			return false
		}
	}
	return true
}
