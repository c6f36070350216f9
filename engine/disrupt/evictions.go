package disrupt

import (
	"cmp"
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
)

// evictions is the pods that leave their seats for a move, whichever way it goes: as listed on its
// nodes, and in lots.
type evictions struct {
	move    *Move
	from    []int // the seats that they leave
	pods    []evictedPod
	batches []evictionBatch
	// goals are seats that the plan has for some of them, by number: first of nodes, then of what is
	// bought, negative when that is not known.
	goals  []int
	launch int            // the number of the first launch
	goal   map[string]int // by UID

	guards  map[string]*PDB // of the node that is cleared, by UID
	budgets map[string]int  // numbers
	gone    []int           // scratch: see queue

	now, late []*evictedPod // scratch: see queue
}

// evictedPod is a pod that looks for a seat.
type evictedPod struct {
	*cluster.PodClass
	*podRules
	from int // its seat
	goal int // negative when the plan gives it none
	// meant is the seat that the plan gives it: its own when there is none.
	meant  int
	guard  *PDB // nil when no budget holds it up
	budget int  // its number
}

// evictionBatch is pods of one class that leave one node.
type evictionBatch struct {
	node     int
	share    float64 // of the node that each asks for
	from, to int     // of the party's pods
}

// gather lists who must leave the nodes. Everybody's manners are learnt as long as all sit where they
// did.
func (f *schedSim) gather(m *Move, set []*node) *evictions {
	p := &f.evictions
	p.reset(m)
	for _, home := range m.Receivers {
		if at, ok := f.of[f.w.NodeByKey(home.Node)]; ok {
			p.send(home.Pods, at)
		}
	}
	p.launch = len(p.goals)
	for i := range m.Launches {
		p.send(m.Launches[i].Pods, -1)
	}
	for i, n := range set {
		if at, ok := f.of[n.host]; ok {
			p.guard(n)
			f.clear(p, i, at)
		}
	}
	return p
}

// reset makes it a party without anybody.
func (p *evictions) reset(m *Move) {
	*p = evictions{move: m, from: p.from[:0], pods: p.pods[:0], batches: p.batches[:0], goals: p.goals[:0], goal: p.goal,
		budgets: p.budgets, gone: p.gone, now: p.now, late: p.late}
	if p.goal == nil {
		p.goal, p.budgets = map[string]int{}, map[string]int{}
	}
	clear(p.goal)
	clear(p.budgets)
}

// send gives pods a goal.
func (p *evictions) send(pods []cluster.PodRef, at int) {
	for _, ref := range pods {
		p.goal[ref.UID] = len(p.goals)
	}
	p.goals = append(p.goals, at)
}

// guard looks at whose leave the pods of a node need.
func (p *evictions) guard(n *node) {
	for i := range n.PDBs {
		name := n.PDBs[i].Name
		if _, known := p.budgets[name]; !known {
			p.budgets[name] = len(p.budgets)
		}
	}
	p.guards = n.guardians()
}

// guardians are the node's Guards by the pods that they let go.
func (n *node) guardians() map[string]*PDB {
	if n.guarded == nil && len(n.PDBs) > 0 {
		n.guarded = map[string]*PDB{}
		for i := range n.PDBs {
			for _, uid := range n.PDBs[i].Pods {
				n.guarded[uid] = &n.PDBs[i]
			}
		}
	}
	return n.guarded
}

// clear adds those who sit there to the party.
func (f *schedSim) clear(p *evictions, node, at int) {
	p.from = append(p.from, at)
	s := &f.nodes[at]
	add := func(c *cluster.PodClass, pods []cluster.PodRef) {
		e := evictedPod{PodClass: c, podRules: f.podRulesOf(c), from: at, goal: -1}
		first := len(p.pods)
		for _, ref := range pods {
			p.pods = append(p.pods, p.told(e, ref.UID))
		}
		if pods == nil {
			p.pods = append(p.pods, e)
		}
		p.batches = append(p.batches, evictionBatch{node, s.group.share(&c.Requests), first, len(p.pods)})
	}
	s.host.EachMovable(add)
	for _, c := range s.arrived {
		add(c, nil)
	}
}

// told is the pod with that UID: where it is to go, and by whose leave.
func (p *evictions) told(e evictedPod, uid string) evictedPod {
	if goal, known := p.goal[uid]; known {
		e.goal = goal
	}
	if e.guard = p.guards[uid]; e.guard != nil {
		e.budget = p.budgets[e.guard.Name]
	}
	return e
}

// aim opens seats for what the move buys, tells everybody theirs, and says what is paid for them.
func (f *schedSim) aim(p *evictions, choose func([]offering.Ref) offering.Ref) (after offering.Price) {
	for i := range p.move.Launches {
		l := &p.move.Launches[i]
		choice := choose(l.Offerings)
		after = after.Add(choice.Price)
		goal := &p.goals[p.launch+i]
		*goal = -1
		if d := f.rowOf(l.Pool, choice); d.market != nil {
			*goal = f.buy(d.market, d.row)
		}
	}
	for i := range p.pods {
		e := &p.pods[i]
		if e.meant = e.from; e.goal >= 0 && p.goals[e.goal] >= 0 {
			e.meant = p.goals[e.goal]
		}
	}
	return after
}

// rowOf finds what a launch becomes with that choice.
func (f *schedSim) rowOf(pool string, choice offering.Ref) cheapestOffering {
	of := offeringKeyOf(pool, choice)
	d, known := f.rows[of]
	if !known {
		d = bought(f.w, of)
		f.rows[of] = d
	}
	return d
}

func bought(w *cluster.Snapshot, of offeringKey) cheapestOffering {
	m := market(w, of.pool)
	if m == nil {
		return cheapestOffering{}
	}
	for row := range m.Catalog.Offerings {
		o := &m.Catalog.Offerings[row]
		if o.Zone == of.zone && o.CapacityType == of.capacityType && m.Catalog.Types[o.Type].Name == of.instanceType {
			return cheapestOffering{m, row, o.Price}
		}
	}
	return cheapestOffering{}
}

// order says which of two lots leaves first; of equals the one that is listed first.
type order func(x, y evictionBatch) int

// mixed is the order when nodes are drained side by side: the largest pods first.
func mixed(x, y evictionBatch) int { return cmp.Compare(y.share, x.share) }

func nodeByNode(x, y evictionBatch) int { return cmp.Or(cmp.Compare(x.node, y.node), mixed(x, y)) }

func lastNodeFirst(x, y evictionBatch) int { return cmp.Or(cmp.Compare(y.node, x.node), mixed(x, y)) }

// queue puts the pods in that order, and tells apart whom a PodDisruptionBudget lets go only after
// others of theirs run again: meanwhile everybody else has sat down.
func (p *evictions) queue(o order) (now, late []*evictedPod) {
	slices.SortFunc(p.batches, func(x, y evictionBatch) int { return cmp.Or(o(x, y), cmp.Compare(x.from, y.from)) })
	p.now, p.late = p.now[:0], p.late[:0]
	p.gone = append(p.gone[:0], make([]int, len(p.budgets))...)
	for _, l := range p.batches {
		for i := l.from; i < l.to; i++ {
			if e := &p.pods[i]; p.waits(e) {
				p.late = append(p.late, e)
			} else {
				p.now = append(p.now, e)
			}
		}
	}
	return p.now, p.late
}

// waits reports whether the pod's budget holds it up, after those that went before.
func (p *evictions) waits(e *evictedPod) bool {
	if e.guard == nil {
		return false
	}
	p.gone[e.budget]++
	return p.gone[e.budget] > e.guard.Allowed
}
