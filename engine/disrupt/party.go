package disrupt

import (
	"cmp"
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
)

// party is the pods that leave their seats for a move, whichever way it goes: as listed on its
// nodes, and in lots.
type party struct {
	move *Move
	from []int // the seats that they leave
	pods []evicted
	lots []lot
	// goals are seats that the plan has for some of them, by number: first of nodes, then of what is
	// bought, negative when that is not known.
	goals  []int
	launch int            // the number of the first launch
	goal   map[string]int // by UID

	guards  map[string]*Guard // of the node that is cleared, by UID
	budgets map[string]int    // numbers
	gone    []int             // scratch: see queue

	now, late []*evicted // scratch: see queue
}

// evicted is a pod that looks for a seat.
type evicted struct {
	*cluster.PodClass
	*manners
	from int // its seat
	goal int // negative when the plan gives it none
	// meant is the seat that the plan gives it: its own when there is none.
	meant  int
	guard  *Guard // nil when no budget holds it up
	budget int    // its number
}

// lot is pods of one class that leave one node.
type lot struct {
	node     int
	share    float64 // of the node that each asks for
	from, to int     // of the party's pods
}

// gather lists who must leave the nodes. Everybody's manners are learnt as long as all sit where they
// did.
func (f *floor) gather(m *Move, set []*node) *party {
	p := &f.party
	p.reset(m)
	for _, home := range m.Homes {
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
func (p *party) reset(m *Move) {
	*p = party{move: m, from: p.from[:0], pods: p.pods[:0], lots: p.lots[:0], goals: p.goals[:0], goal: p.goal,
		budgets: p.budgets, gone: p.gone, now: p.now, late: p.late}
	if p.goal == nil {
		p.goal, p.budgets = map[string]int{}, map[string]int{}
	}
	clear(p.goal)
	clear(p.budgets)
}

// send gives pods a goal.
func (p *party) send(pods []cluster.PodRef, at int) {
	for _, ref := range pods {
		p.goal[ref.UID] = len(p.goals)
	}
	p.goals = append(p.goals, at)
}

// guard looks at whose leave the pods of a node need.
func (p *party) guard(n *node) {
	for i := range n.Guards {
		name := n.Guards[i].Budget
		if _, known := p.budgets[name]; !known {
			p.budgets[name] = len(p.budgets)
		}
	}
	p.guards = n.guardians()
}

// guardians are the node's Guards by the pods that they let go.
func (n *node) guardians() map[string]*Guard {
	if n.guarded == nil && len(n.Guards) > 0 {
		n.guarded = map[string]*Guard{}
		for i := range n.Guards {
			for _, uid := range n.Guards[i].Pods {
				n.guarded[uid] = &n.Guards[i]
			}
		}
	}
	return n.guarded
}

// clear adds those who sit there to the party.
func (f *floor) clear(p *party, node, at int) {
	p.from = append(p.from, at)
	s := &f.seats[at]
	add := func(c *cluster.PodClass, pods []cluster.PodRef) {
		e := evicted{PodClass: c, manners: f.mannersOf(c), from: at, goal: -1}
		first := len(p.pods)
		for _, ref := range pods {
			p.pods = append(p.pods, p.told(e, ref.UID))
		}
		if pods == nil {
			p.pods = append(p.pods, e)
		}
		p.lots = append(p.lots, lot{node, s.block.share(&c.Requests), first, len(p.pods)})
	}
	s.host.EachMovable(add)
	for _, c := range s.guests {
		add(c, nil)
	}
}

// told is the pod with that UID: where it is to go, and by whose leave.
func (p *party) told(e evicted, uid string) evicted {
	if goal, known := p.goal[uid]; known {
		e.goal = goal
	}
	if e.guard = p.guards[uid]; e.guard != nil {
		e.budget = p.budgets[e.guard.Budget]
	}
	return e
}

// aim opens seats for what the move buys, tells everybody theirs, and says what is paid for them.
func (f *floor) aim(p *party, choose func([]offering.Ref) offering.Ref) (after offering.Price) {
	for i := range p.move.Launches {
		l := &p.move.Launches[i]
		choice := choose(l.Choices)
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
func (f *floor) rowOf(pool string, choice offering.Ref) deal {
	of := likeOf(pool, choice)
	d, known := f.rows[of]
	if !known {
		d = bought(f.w, of)
		f.rows[of] = d
	}
	return d
}

func bought(w *cluster.Snapshot, of like) deal {
	m := market(w, of.pool)
	if m == nil {
		return deal{}
	}
	for row := range m.Catalog.Offerings {
		o := &m.Catalog.Offerings[row]
		if o.Zone == of.zone && o.CapacityType == of.capacityType && m.Catalog.Types[o.Type].Name == of.instanceType {
			return deal{m, row, o.Price}
		}
	}
	return deal{}
}

// order says which of two lots leaves first; of equals the one that is listed first.
type order func(x, y lot) int

// mixed is the order when nodes are drained side by side: the largest pods first.
func mixed(x, y lot) int { return cmp.Compare(y.share, x.share) }

func nodeByNode(x, y lot) int { return cmp.Or(cmp.Compare(x.node, y.node), mixed(x, y)) }

func lastNodeFirst(x, y lot) int { return cmp.Or(cmp.Compare(y.node, x.node), mixed(x, y)) }

// queue puts the pods in that order, and tells apart whom a PodDisruptionBudget lets go only after
// others of theirs run again: meanwhile everybody else has sat down.
func (p *party) queue(o order) (now, late []*evicted) {
	slices.SortFunc(p.lots, func(x, y lot) int { return cmp.Or(o(x, y), cmp.Compare(x.from, y.from)) })
	p.now, p.late = p.now[:0], p.late[:0]
	p.gone = append(p.gone[:0], make([]int, len(p.budgets))...)
	for _, l := range p.lots {
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
func (p *party) waits(e *evicted) bool {
	if e.guard == nil {
		return false
	}
	p.gone[e.budget]++
	return p.gone[e.budget] > e.guard.Allowed
}
