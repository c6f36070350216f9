package disrupt

import (
	"cmp"
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
)

// evictions is the pods that leave their nodes for a move, in whichever way it goes: listed by
// node, and in batches.
type evictions struct {
	move    *Move
	from    []int // the nodes that they leave
	pods    []evictedPod
	batches []evictionBatch
	// goals are the nodes that the plan has for some of the pods, by number: first existing nodes,
	// then launches; negative when the node is not known.
	goals  []int
	launch int            // the number of the first launch
	goal   map[string]int // by UID

	guards  map[string]*PDB // of the node that is being listed, by pod UID
	budgets map[string]int  // number by PDB name
	gone    []int           // scratch: see queue

	now, late []*evictedPod // scratch: see queue
}

// evictedPod is a pod that needs another node.
type evictedPod struct {
	*cluster.PodClass
	*podRules
	from int // its node
	goal int // an index into goals; negative when the plan has no node for it
	// meant is the node that the plan has for it: its own when there is none.
	meant  int
	guard  *PDB // nil when no PDB delays it
	budget int  // the PDB's number
}

// evictionBatch is pods of one class that leave one node.
type evictionBatch struct {
	node     int
	share    float64 // of the node that each pod requests
	from, to int     // in evictions.pods
}

// gather lists the pods that must leave the nodes. It compiles their podRules while all pods are
// still where they were.
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

// reset empties the evictions for another move.
func (p *evictions) reset(m *Move) {
	*p = evictions{move: m, from: p.from[:0], pods: p.pods[:0], batches: p.batches[:0], goals: p.goals[:0], goal: p.goal,
		budgets: p.budgets, gone: p.gone, now: p.now, late: p.late}
	if p.goal == nil {
		p.goal, p.budgets = map[string]int{}, map[string]int{}
	}
	clear(p.goal)
	clear(p.budgets)
}

// send sets the goal of pods.
func (p *evictions) send(pods []cluster.PodRef, at int) {
	for _, ref := range pods {
		p.goal[ref.UID] = len(p.goals)
	}
	p.goals = append(p.goals, at)
}

// guard notes the PDBs of the node's pods.
func (p *evictions) guard(n *node) {
	for i := range n.PDBs {
		name := n.PDBs[i].Name
		if _, known := p.budgets[name]; !known {
			p.budgets[name] = len(p.budgets)
		}
	}
	p.guards = n.guardians()
}

// guardians are the node's PDBs by the UIDs of the pods that they allow to be evicted.
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

// clear adds the pods of the node.
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

// told is the pod with that UID, with its goal and its PDB.
func (p *evictions) told(e evictedPod, uid string) evictedPod {
	if goal, known := p.goal[uid]; known {
		e.goal = goal
	}
	if e.guard = p.guards[uid]; e.guard != nil {
		e.budget = p.budgets[e.guard.Name]
	}
	return e
}

// aim adds nodes for the move's launches, sets what each pod is meant for, and returns their
// price.
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

// rowOf finds the offering that a launch becomes with that choice.
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

// order decides which of two batches leaves first; of equals the one that is listed first.
type order func(x, y evictionBatch) int

// mixed is the order when nodes are drained side by side: the largest pods first.
func mixed(x, y evictionBatch) int { return cmp.Compare(y.share, x.share) }

func nodeByNode(x, y evictionBatch) int { return cmp.Or(cmp.Compare(x.node, y.node), mixed(x, y)) }

func lastNodeFirst(x, y evictionBatch) int { return cmp.Or(cmp.Compare(y.node, x.node), mixed(x, y)) }

// queue sorts the pods by that order. It separates the pods that a PodDisruptionBudget allows to
// go only after others that it selects run again: all other pods are placed before them.
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

// waits reports whether the pod's PDB delays it, after the pods that went before.
func (p *evictions) waits(e *evictedPod) bool {
	if e.guard == nil {
		return false
	}
	p.gone[e.budget]++
	return p.gone[e.budget] > e.guard.Allowed
}
