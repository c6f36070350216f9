package disrupt

import (
	"cmp"
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/schedsim"
	"github.com/karve-dev/karve/engine/schedule"
)

// Search decides which nodes go and what replaces them. It applies moves to a what-if of the
// snapshot, one on top of the other; the snapshot itself does not change. All moves of a plan can
// be made at once, in any order, and no pod moves twice.
//
// It looks in stages: nodes that are empty; nodes that are due; nodes whose pods fit on other
// nodes; nodes whose pods cost less on new nodes. With Settings.Steps it stops after that many
// drafts of package schedule, and the Plan says where to continue. The order of nodes and pools
// in the Cluster does not change the Plan.
func Search(w *cluster.Snapshot, c Cluster, from Cursor) Plan {
	s := newSearch(w, &c, !c.Settings.Upstream)
	defer s.whatIf.End()
	s.tie(s.came)
	s.resumed = from != Cursor{}
	all := stages()
	for i := from.Stage; i < len(all); i++ {
		next, done := s.stage(i, all[i], from)
		if !done {
			return s.plan(next, false)
		}
	}
	if from == (Cursor{}) {
		s.explainAll()
	}
	return s.plan(Cursor{}, true)
}

// stage is one pass over the nodes: prepare lists them in order, look handles each.
type stage struct {
	prepare func(*search) []*node
	look    func(*search, *node)
}

// stages in the order in which they run. Deletions are tried three times. First the nodes that
// are expected to go take no pods of each other. Then nodes that could not go take pods. At last
// nodes that are mostly empty, or that seemed the wrong instance type, take pods too: nothing
// better was found for them.
func stages() []stage {
	return []stage{
		{(*search).empties, (*search).empty},
		{(*search).dues, (*search).due},
		{(*search).doomed, (*search).remove},
		{(*search).undecided, (*search).remove},
		{(*search).wasteful, (*search).replace},
		{(*search).vetoed, (*search).remove},
		{(*search).pinned, (*search).appraise},
	}
}

// stage runs one stage from the cursor on, if the cursor is in it. The order includes nodes that
// earlier calls handled, so that the cursor finds its place.
func (s *search) stage(i int, of stage, from Cursor) (next Cursor, done bool) {
	s.rewind()
	order := of.prepare(s)
	at := 0
	if i == from.Stage && from.Key != "" {
		at = 1 + slices.IndexFunc(order, func(n *node) bool { return n.Key == from.Key })
	}
	next.Stage = i
	for ; at < len(order); at++ {
		if at > 0 {
			next.Key = order[at-1].Key
		}
		if most := s.c.Settings.Steps; most > 0 && s.steps >= most {
			return next, false
		}
		of.look(s, order[at])
	}
	return Cursor{}, true
}

// search is one call of Search or Recheck.
type search struct {
	w      *cluster.Snapshot
	c      *Cluster
	whatIf *cluster.WhatIf
	nodes  []*node // by key
	byKey  map[string]*node
	pools  map[string]*Pool
	// nodeCounts counts nodes of moves in this plan as down.
	nodeCounts   map[string]NodeCount
	totals       map[string]Totals
	shadowPrices *schedule.ShadowPrices
	sim          *schedsim.Cluster // where pods of moves end up; nil when moves are not simulated
	came         arrivals          // with moves under way
	ties         ties              // of pods of moves
	moves        []Move
	steps        int
	queue        []*node         // see wasteful
	proposals    []answer        // since the last accepted move: see propose
	past         map[string]past // by samePlace
	// unlodged counts, by place, the nodes in a row that lodge could not replace.
	unlodged map[string]int
	// exchanged is how many nodes of the wrong instance type went at once when exchange last
	// tried, by pool.
	exchanged map[string]int
	// lenient searches let pods go to nodes that are mostly empty. Resumed searches do not know
	// what earlier calls put off.
	lenient, resumed bool
	// decided is set by Recheck: the nodes of the move are settled, and none is kept after all.
	decided bool
	// admitted is set while pods may go to nodes that are not quiet.
	admitted bool
}

// node is a Node with what the snapshot knows of it.
type node struct {
	*Node
	pool  *Pool             // nil when it is not known
	host  *cluster.NodeInfo // nil when it is not in the snapshot
	place string            // its pool, zone and capacity type
	as    offeringKey       // its offering and pool
	price offering.Price    // per hour; zero when unknown
	// asked is the sum of its movable pods' requests.
	asked quantity.Vector
	worth float64 // see Worth
	// pdbs are its PDBs by the pods that they allow to be evicted; see pdbsByPod.
	pdbs map[string]schedsim.PDB
	// waste is what the node costs beyond what its pods would cost at the best prices; least is
	// what replacing it must save; rank is its place in the queue.
	waste, least offering.Price
	rank         int
	// gone nodes are in a move; home nodes receive pods of moves.
	gone, home bool
	free       bool // may be consolidated, as far as the node itself decides it
	keeper     bool // see keepers
	swappable  bool // may be replaced, as far as its capacity type decides it
	wrong      bool // is the wrong instance type for its pods, and will be replaced
	soon       bool // is due, and will be replaced as soon as its pool's budget allows
	put        bool // put off, as its pods would go to a node that is mostly empty
	doomed     bool // will probably be removed
	filling    bool // is removed with other doomed nodes, whose pods fill those that stay
	shut       bool // takes no pods, as long as the stage lasts
	admitted   bool // takes pods although it is not quiet; see admit
	kept       Kept
}

// newSearch applies the moves under way. It simulates its moves when rehearsed is set.
func newSearch(w *cluster.Snapshot, c *Cluster, rehearsed bool) *search {
	s := &search{w: w, c: c, whatIf: w.WhatIf(), byKey: map[string]*node{}, pools: map[string]*Pool{}, nodeCounts: CountNodes(c), past: map[string]past{}, unlodged: map[string]int{}, exchanged: map[string]int{}, came: arrivals{}, ties: ties{}}
	for i := range c.Pools {
		s.pools[c.Pools[i].Name] = &c.Pools[i]
	}
	var hosts []*cluster.NodeInfo
	for i := range c.Nodes {
		n := &node{Node: &c.Nodes[i], pool: s.pools[c.Nodes[i].Pool]}
		n.host = w.NodeByKey(n.Key)
		if n.host != nil {
			n.measure()
			hosts = append(hosts, n.host)
		}
		s.byKey[n.Key] = n
		s.nodes = append(s.nodes, n)
	}
	slices.SortFunc(s.nodes, func(x, y *node) int { return cmp.Compare(x.Key, y.Key) })
	s.shadowPrices = schedule.NewShadowPrices(w, hosts)
	s.totals = TotalsOf(c, func(key string) offering.Price { return s.byKey[key].price })
	if rehearsed {
		s.sim = schedsim.New(w)
	}
	s.resume()
	s.judge()
	s.fair()
	s.weigh()
	return s
}

// measure reads what the snapshot knows of the node.
func (n *node) measure() {
	if n.Unpriced == "" {
		n.price = n.host.Price
	}
	n.host.EachMovable(func(c *cluster.PodClass, pods []cluster.PodRef) {
		n.asked = n.asked.Add(c.Requests.Times(len(pods)))
	})
	n.worth = Worth(n.price, n.Node)
	l := n.host.Labels
	n.as = offeringKey{n.Pool, l[cluster.LabelInstanceType], l[cluster.LabelZone], l[cluster.LabelCapacityType]}
	n.place = n.Pool + "|" + n.as.zone + "|" + n.as.capacityType
}

// resume applies the moves that were decided before.
func (s *search) resume() {
	for i := range s.c.Underway {
		m := &s.c.Underway[i]
		s.mark(m)
		if len(s.hostsOf(m)) > 0 { // a draining node is leaving in the snapshot already
			s.perform(m)
		}
		s.came.add(s.impose(m))
	}
	for _, n := range s.nodes {
		if n.host != nil && !n.gone && !CanReceive(n.Node, n.pool, s.c) {
			s.whatIf.Cordon(n.host)
		}
	}
	for _, h := range slices.Clone(s.whatIf.Snapshot().Nodes) {
		if !h.Initialized && h.Index >= 0 {
			s.whatIf.Cordon(h)
		}
	}
}

// judge decides for every node whether it may be consolidated.
func (s *search) judge() {
	for _, n := range s.nodes {
		cause := Underutilized
		if Vacant(n.Node, s.c.Settings) {
			cause = Empty
		}
		n.kept, n.free = Eligible(n.Node, n.pool, cause, s.c)
		n.free = n.free && n.host != nil && !n.host.Leaving && cause == Underutilized
		if len(n.Due) == 0 {
			continue
		}
		if left, ok := Eligible(n.Node, n.pool, n.Due[0].Cause, s.c); !ok {
			n.kept = left
			continue
		}
		most, _ := Permitted(n.pool, s.nodeCounts[n.Pool].Nodes, n.Due[0].Cause)
		n.soon = most > 0 && n.host != nil && !n.host.Leaving
		n.free = n.free && !n.soon
	}
}

// fair computes what an eviction must save: a share of the average cost of a pod. The average is
// the price that remains if all goes well (what pinned nodes cost, and what the other pods need
// at the best prices) divided by the pods that may move: where few pods may move, these would
// have to move for the benefit of all. The value does not change while the cluster shrinks, so no
// plan is undone by the next.
func (s *search) fair() {
	t := &s.c.Settings.MinSavings
	if t.PerPod <= 0 {
		return
	}
	bill, pods := offering.Price(0), 0.0
	for _, n := range s.nodes {
		switch {
		case n.host == nil || n.gone || n.host.Leaving:
		case n.pinned():
			bill = bill.Add(n.price)
		default:
			bill = bill.Add(s.shadowPrices.Of(n.host))
			pods += n.Cost
		}
	}
	if pods > 0 {
		t.PerEviction = min(t.PerEviction, offering.Price(t.PerPod*float64(bill)/pods))
	}
}

// pinned reports whether the node stays for a reason that does not lapse soon.
func (n *node) pinned() bool {
	switch n.kept.Because {
	case NotInitialized, Nominated, MoveUnderway, AlreadyLeaving, Resting:
		return false
	}
	return !n.free && !n.soon && n.kept.Because != "" && n.kept.Until.IsZero()
}

// weigh computes what the nodes waste, and which nodes are the wrong instance type for their
// pods: however full such a node is, its replacement pays.
func (s *search) weigh() {
	for _, n := range s.nodes {
		if n.host == nil || n.price == 0 {
			continue
		}
		needs := s.shadowPrices.Of(n.host)
		n.waste = n.price - needs // also of nodes that go: cursors need the same queue
		if n.pool == nil {
			continue
		}
		n.least = Least(s.parts([]*node{n}), s.c.Settings)
		n.swappable = s.spot([]*node{n}).Because == ""
	}
	s.keepers()
}

// fleeting nodes are mostly wasted and stay only because they are too young or not quiet: they
// are looked at again as soon as that has passed.
func (n *node) fleeting() bool {
	return (n.kept.Because == TooYoung || n.kept.Because == TooSoon) && n.waste >= n.least && n.waste > n.price/2
}

// mark notes which nodes take part in a move.
func (s *search) mark(m *Move) {
	for _, key := range m.Nodes {
		if n := s.byKey[key]; n != nil {
			n.gone = true
		}
	}
	for _, home := range m.Receivers {
		if n := s.byKey[home.Node]; n != nil {
			n.home = true
		}
	}
}

// rewind undoes what the previous stage changed, except for its moves.
func (s *search) rewind() {
	s.dismiss()
	var open []*cluster.NodeInfo
	for _, n := range s.nodes {
		if n.shut && !n.gone && !n.wanders() {
			n.shut = false
			open = append(open, n.host)
		}
	}
	s.whatIf.Uncordon(open...)
	for _, n := range s.nodes {
		if n.wanders() && !n.gone && n.host != nil {
			s.shut(n) // pods that moved there would move twice
		}
	}
}

// wanders reports whether pods on the node will have to leave it, whatever this plan does.
func (n *node) wanders() bool { return n.soon || n.wrong || n.fleeting() }

// shut keeps pods off the node until the stage ends, unless it takes none anyway.
func (s *search) shut(n *node) {
	if n.host.Leaving || n.host.Unschedulable {
		return
	}
	n.shut = true
	s.whatIf.Cordon(n.host)
}

// room is how many more nodes of the pool may go for that cause.
func (s *search) room(p *Pool, cause Cause) int {
	count := s.nodeCounts[p.Name]
	most, _ := Permitted(p, count.Nodes, cause)
	return max(0, most-count.Down)
}

// refused notes that the pool's budget is used up.
func (s *search) refused(n *node, cause Cause) {
	_, left := Allowed(n.pool, s.nodeCounts[n.Pool], cause)
	n.stays(left)
}

func (n *node) stays(left Kept) {
	left.Key = n.Key
	n.kept = left
}

// take adds the move to the plan and applies it, unless it conflicts with the moves that are
// already there.
func (s *search) take(m Move) Kept {
	mark := s.whatIf.Mark()
	came := s.impose(&m)
	left := s.torn(came)
	if left.Because == "" {
		left = s.rehearse(&m)
	}
	if left.Because != "" {
		s.whatIf.RollbackTo(mark)
		return left
	}
	if m.Cause != Underutilized { // underutilized moves were rehearsed
		s.perform(&m)
	}
	s.tie(came)
	for _, key := range m.Nodes {
		pool := s.byKey[key].Pool
		count := s.nodeCounts[pool]
		count.Down++
		s.nodeCounts[pool] = count
	}
	s.mark(&m)
	s.moves = append(s.moves, m)
	return Kept{}
}

// draftWithout removes the nodes and drafts where their pods go, for at most the maximum price.
// The caller rolls back to the returned mark.
func (s *search) draftWithout(set []*node, purse offering.Price) (*schedule.Draft, cluster.Mark) {
	m := s.vacate(set)
	return schedule.NewDraft(s.whatIf.Snapshot(), purse), m
}

// vacate removes the nodes for a draft, and counts one step.
func (s *search) vacate(set []*node) cluster.Mark {
	s.steps++
	m := s.whatIf.Mark()
	hosts := make([]*cluster.NodeInfo, len(set))
	for i, n := range set {
		hosts[i] = n.host
	}
	s.whatIf.RemoveNodes(hosts...)
	return m
}

func (s *search) plan(next Cursor, done bool) Plan {
	p := Plan{Moves: s.moves, Done: done, Next: next}
	for _, n := range s.nodes {
		if n.gone {
			continue
		}
		if n.kept.Because == "" && n.home {
			n.stays(Kept{Because: Receives, Detail: "Pods of other nodes are to move there"})
		}
		if n.kept.Because != "" {
			p.Kept = append(p.Kept, n.kept)
		}
	}
	return p
}
