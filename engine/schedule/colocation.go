// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"slices"
	"sort"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
)

// colocation places pods that must share a node: those that a required term of pod affinity over
// the hostname selects, which lead, and those that have the term, which follow. Placed one group
// after another, the leading pods may get a node on which the others have no room, and the others
// can go nowhere else. So one leading pod of each group is placed together with all that follow: on
// an existing node that holds them, on a planned one, or on a new one. Where no node holds them all,
// the pods that follow are divided over several nodes with a leading pod each; if there is no other
// leading pod, they get the node that holds most of them.
//
// Leading pods of lower priority than one that follows are placed with it: it can be nowhere without
// them. The leading pods that this leaves are placed like all other pods.
type colocation struct {
	solver    *solver
	groups    []*podGroup               // leading groups before those that follow them
	cells     [][]*cell                 // by group; none for groups without rules over domains
	residents residents                 // all pods of the groups, as if they were on one node
	mates     []mate                    // colocations after this one
	rows      map[*poolState]bitset.Set // see rowsIn
}

// maxNodesTried is how many existing nodes with enough free capacity a colocation looks at.
const maxNodesTried = 256

// placeColocated places the pods of the groups that earlier rounds found to share nodes, and with them
// the pods of other groups that share those.
func (s *solver) placeColocated(groups []*podGroup) {
	if len(s.learned.colocated) == 0 {
		return
	}
	now := map[int]bool{} // the colocations with one of the groups
	for _, g := range groups {
		if n, ok := s.learned.colocationOf[g.class]; ok && g.unassigned() > 0 {
			now[n] = true
		}
	}
	if len(now) == 0 {
		return
	}
	byClass := map[*cluster.PodClass][]*podGroup{}
	for _, g := range s.podGroups {
		if n, ok := s.learned.colocationOf[g.class]; ok && now[n] && g.unassigned() > 0 && !g.excluded() && !s.learned.unplaceable[g.class] {
			byClass[g.class] = append(byClass[g.class], g)
		}
	}
	var all []*colocation
	for n, classes := range s.learned.colocated {
		if now[n] {
			all = append(all, newColocation(s, classes, byClass))
		}
	}
	for i, c := range all {
		if !s.learned.policy.leastForEach {
			c.matesAmong(all[i+1:])
		}
		for !c.outOfSteps() && c.placeSome() {
			c.groups = slices.DeleteFunc(c.groups, func(g *podGroup) bool { return g.unassigned() == 0 })
		}
		if c.outOfSteps() {
			s.searches.cut(Colocation, c.following())
		}
	}
}

// newColocation is a colocation of the classes' groups.
func newColocation(s *solver, classes []*cluster.PodClass, byClass map[*cluster.PodClass][]*podGroup) *colocation {
	c := &colocation{solver: s, rows: map[*poolState]bitset.Set{}}
	for _, class := range classes {
		for _, g := range byClass[class] {
			c.groups = append(c.groups, g)
			c.residents.add(&g.nodeRules)
		}
	}
	return c
}

// unassignedRequests is what the pods of the groups request that have no place yet.
func unassignedRequests(groups []*podGroup) (sum quantity.Vector) {
	for _, g := range groups {
		sum = sum.Add(g.shape.Requests.Times(g.unassigned()))
	}
	return sum
}

// spend takes steps: one for a look at a node, a launch or an offering for pods of one group, and
// one for each cell that a pod is compared with. Pods that are left when all are spent are placed
// one group after another, like those that share no node.
func (c *colocation) spend(steps int) { c.solver.searches.colocateSteps += steps }

// outOfSteps reports whether no step is left.
func (c *colocation) outOfSteps() bool {
	return c.solver.searches.colocateSteps >= c.solver.searches.budgets[Colocation]
}

// placeSome places pods on one node. It reports false when it found none on which pods follow.
func (c *colocation) placeSome() bool {
	if c.following() == 0 || !c.leads(c.groups[0]) || c.spreads() {
		return false
	}
	c.cells = c.cells[:0]
	for _, g := range c.groups {
		var cells []*cell
		if len(g.domainKeys) > 0 {
			cells = c.solver.cells.find(g)
		}
		c.cells = append(c.cells, cells)
	}
	most := c.leadingPods()
	n := sort.Search(most, func(i int) bool { return c.nodeFor(c.shares(i+1)) != nil }) + 1
	if n > most {
		return c.placeMost(c.shares(most))
	}
	shares, found := c.cheapestDivision(n, most)
	if found.onNewNode() && c.fillNodesWithLowerPriority() {
		return true
	}
	if !c.place(found) {
		return false
	}
	for next := c.clip(shares); next != nil && !c.outOfSteps() && c.place(c.nodeFor(next)); next = c.clip(shares) {
	}
	return true
}

// clip is the shares for one node more, as far as pods are left; nil when a leading group has none, or
// no pod follows.
func (c *colocation) clip(shares []int) []int {
	out := slices.Clone(shares)
	for i, g := range c.groups {
		if out[i] = min(out[i], g.unassigned()); out[i] == 0 && !g.follows() {
			return nil
		}
	}
	if c.following() == 0 || !c.leads(c.groups[0]) {
		return nil
	}
	return out
}

// cheapestDivision is an equal share of the pods for one of n nodes or of more, which may cost less
// together, and the node for it.
func (c *colocation) cheapestDivision(n, most int) (shares []int, best *sharedNode) {
	var least offering.Price
	for ; n <= most; n *= 2 {
		found := c.nodeFor(c.shares(n))
		if found == nil || found.pool == nil {
			if best == nil {
				return c.shares(n), found
			}
			break
		}
		if total := found.price * offering.Price(n); best == nil || total < least {
			shares, best, least = c.shares(n), found, total
		}
	}
	return shares, best
}

// placeMost places as many of the pods that follow as one node holds of the shares.
func (c *colocation) placeMost(shares []int) bool {
	sum := 0
	for i, n := range shares {
		if c.groups[i].follows() {
			sum += n
		}
	}
	first := func(n int) []int {
		out := slices.Clone(shares)
		for i := range out {
			if c.groups[i].follows() {
				out[i] = min(out[i], n)
				n -= out[i]
			}
		}
		return out
	}
	n := sort.Search(sum, func(i int) bool { return c.nodeFor(first(i+1)) == nil })
	if n == 0 {
		return false
	}
	found := c.nodeFor(first(n))
	return found.onNewNode() && c.fillNodesWithLowerPriority() || c.place(found)
}

// fillNodesWithLowerPriority puts leading pods of lower priority than some that follow on existing nodes
// that have room for them: kube-scheduler binds them there before a new node is there. It reports false
// when it put none there.
func (c *colocation) fillNodesWithLowerPriority() bool {
	filled := false
	for i, g := range c.groups {
		if g.follows() || !slices.ContainsFunc(c.groups, func(o *podGroup) bool { return o.follows() && o.class.Priority > g.class.Priority }) {
			continue
		}
		before := g.placed
		if len(g.domainKeys) == 0 {
			c.solver.nodes.fill(g)
		} else {
			c.nominateInCells(g, c.cells[i])
		}
		filled = filled || g.placed > before
	}
	return filled
}

// nominateInCells puts pods of the group on existing nodes, as far as those have room in the cells that
// come next.
func (c *colocation) nominateInCells(g *podGroup, cells []*cell) {
	s := c.solver
	for g.unassigned() > 0 {
		best := s.bestCell(g, cells)
		if best == nil {
			return
		}
		i := s.nodes.nodeIn(g, best)
		if i < 0 {
			return
		}
		s.topology.addToDomainCounts(g, best, 1)
		s.nodes.nominate(g, i, 1)
	}
}

// follows reports whether pods of the group must join other pods on their node.
func (g *podGroup) follows() bool { return len(g.nodeRules.needs) > 0 }

// mustJoin reports whether pods of the group must join other pods on their node, whatever
// preferences they drop.
func (g *podGroup) mustJoin() bool {
	return slices.ContainsFunc(g.nodeRules.needs, func(d need) bool { return !d.soft })
}

// mayBeFirst reports whether a pod of the group may be on a node without pods that it must join, while
// there are none anywhere.
func (g *podGroup) mayBeFirst() bool {
	return !slices.ContainsFunc(g.nodeRules.needs, func(d need) bool { return !d.selfSelecting })
}

// joinsItself reports whether a term selects the group's own pods: only one of them can be the first
// anywhere.
func (g *podGroup) joinsItself() bool {
	return slices.ContainsFunc(g.nodeRules.needs, func(d need) bool { return d.selfSelecting })
}

// following is how many pods that follow have no place yet.
func (c *colocation) following() int {
	n := 0
	for _, g := range c.groups {
		if g.follows() {
			n += g.unassigned()
		}
	}
	return n
}

// spreads reports whether pods spread over zones or other domains must follow pods that need not join
// any: a share of them is not one domain's, so they are placed like all other pods.
func (c *colocation) spreads() bool {
	return !c.groups[0].follows() && slices.ContainsFunc(c.groups, func(g *podGroup) bool { return g.follows() && g.hasSpread() })
}

// leads reports whether pods of the group may be on a node before those of all other groups.
func (c *colocation) leads(g *podGroup) bool {
	return !slices.ContainsFunc(g.nodeRules.needs, func(d need) bool { return !d.selfSelecting || c.solver.counters.total(d.counter) > 0 })
}

// leadingPods is over how many nodes the pods can be divided: each needs a leading pod of each group,
// and of pods with affinity to each other only one can be the first.
func (c *colocation) leadingPods() int {
	most := 0
	for _, g := range c.groups {
		if !g.follows() && (most == 0 || g.unassigned() < most) {
			most = g.unassigned()
		}
	}
	return max(1, most)
}

// shares is how many pods of each group go to one of n nodes.
func (c *colocation) shares(n int) []int {
	out := make([]int, len(c.groups))
	for i, g := range c.groups {
		out[i] = 1
		if g.follows() {
			out[i] = (g.unassigned() + n - 1) / n
		}
	}
	return out
}

// sharedNode is a node for pods of several groups: an existing one, one that is planned already, or
// one to be launched.
type sharedNode struct {
	allotments   []*allotment
	node         int        // index of the existing node
	planned      *launch    // nil for other nodes
	pool         *poolState // nil unless it is to be launched
	row          int
	price        offering.Price    // what the allotments pay for their part of a launch
	requirements *nodeRequirements // of launches
	used         quantity.Vector
}

// onNewNode reports whether the node is one that does not exist yet.
func (n *sharedNode) onNewNode() bool { return n != nil && (n.pool != nil || n.planned != nil) }

// nodeFor finds a node for that many pods of each group; nil when there is none.
func (c *colocation) nodeFor(shares []int) *sharedNode {
	if found := c.existingFor(shares); found != nil {
		return found
	}
	var best *sharedNode
	choices := c.cellChoices()
	for _, cells := range choices {
		if found := c.plannedFor(c.allotments(shares, cells)); found != nil {
			return found
		}
	}
	for _, cells := range choices {
		if found := c.launchFor(c.allotments(shares, cells)); found != nil && (best == nil || found.cheaperThan(best)) {
			best = found
		}
	}
	return best
}

// cheaperThan reports whether a launch comes before another one: a heavier pool, then a lower
// price.
func (n *sharedNode) cheaperThan(o *sharedNode) bool {
	if n.pool.Pool.Weight != o.pool.Pool.Weight {
		return n.pool.Pool.Weight > o.pool.Pool.Weight
	}
	return n.price < o.price
}

// allotments makes an allotment of each share that is not zero.
func (c *colocation) allotments(shares []int, cells []*cell) []*allotment {
	var out []*allotment
	for i, n := range shares {
		if n > 0 {
			out = append(out, &allotment{group: c.groups[i], cell: cells[i], wanted: n})
		}
	}
	return out
}

// cellChoices lists cells for the groups, one each, in which one node can be launched for all.
func (c *colocation) cellChoices() [][]*cell {
	first := 0
	for i, g := range c.groups {
		if len(g.domainKeys) > len(c.groups[first].domainKeys) {
			first = i
		}
	}
	if len(c.groups[first].domainKeys) == 0 {
		return [][]*cell{make([]*cell, len(c.groups))}
	}
	var out [][]*cell
	for _, at := range c.cells[first] {
		if choice := c.cellsWith(at); at.price >= 0 && choice != nil {
			out = append(out, choice)
		}
	}
	return out
}

// cellsWith returns for each group a cell that agrees with the given one; nil when some group has
// none.
func (c *colocation) cellsWith(at *cell) []*cell {
	out := make([]*cell, len(c.groups))
	for i, g := range c.groups {
		if len(g.domainKeys) == 0 {
			continue
		}
		n := slices.IndexFunc(c.cells[i], func(o *cell) bool { return o.price >= 0 && o.agreesWith(at) })
		if n < 0 {
			return nil
		}
		out[i] = c.cells[i][n]
	}
	return out
}

// agreesWith reports whether a node can be in both cells, as far as their labels tell.
func (c *cell) agreesWith(o *cell) bool {
	for i, key := range c.Keys {
		if n := slices.Index(o.Keys, key); n >= 0 && c.Values[i] != o.Values[n] {
			return false
		}
	}
	return true
}

// existingFor finds an existing node for the shares; nil when there is none.
func (c *colocation) existingFor(shares []int) *sharedNode {
	ns, lead := &c.solver.nodes, c.groups[0]
	sum, dims := c.requests(shares)
	x := ns.snapshot.NodeIndex(ns.preferred.keys(lead.shape.Keys, lead.class))
	tried := 0
	for _, nodeGroup := range ns.preferred.accepting(lead, x) {
		free := ns.freeSpaces(x)
		for slot := x.Groups[nodeGroup].From; tried < maxNodesTried; slot++ {
			if slot = free.NextFitting(slot, x.Groups[nodeGroup].To, &sum, dims); slot < 0 {
				break
			}
			tried++
			c.spend(len(shares))
			if found := c.onNode(x.PositionOf(slot), shares); found != nil {
				return found
			}
		}
	}
	return nil
}

// requests is what the shares request together.
func (c *colocation) requests(shares []int) (sum quantity.Vector, dims []quantity.Dim) {
	for i, n := range shares {
		sum = sum.Add(c.groups[i].shape.Requests.Times(n))
	}
	for d, n := range sum {
		if n > 0 {
			dims = append(dims, quantity.Dim(d))
		}
	}
	return sum, dims
}

// onNode tries the shares on an existing node; nil when it does not take them.
func (c *colocation) onNode(i int, shares []int) *sharedNode {
	ns := &c.solver.nodes
	node := ns.snapshot.Nodes[i]
	if !takesPods(node) {
		return nil
	}
	cells := make([]*cell, len(c.groups))
	for n, g := range c.groups {
		if shares[n] > 0 && !node.Accepts(g.shape) {
			return nil
		}
		if len(g.domainKeys) > 0 {
			cells[n] = g.cellOf(node, c.cells[n])
		}
	}
	found := &sharedNode{allotments: c.allotments(shares, cells), node: i}
	ok := false
	found.used, ok = c.fit(found.allotments, podsOnNode{
		count:    func(counter int) int { return ns.counters.countOn(counter, i) },
		keptOff:  func(g *podGroup) bool { return ns.keptOff(g, i) },
		attached: func(m cluster.Mount) bool { return node.Mounted[m] || ns.mounts[i][m] },
	})
	if !ok || !ns.free(i).Holds(&found.used) || !c.allowed(found.allotments) {
		return nil
	}
	return found
}

// cellOf is the group's cell that the node is in.
func (g *podGroup) cellOf(node *cluster.NodeInfo, cells []*cell) *cell {
	values := make([]int, len(g.domainKeys))
	g.domainValues(node, values)
	at := g.partitionOf(node)
	if n := slices.IndexFunc(cells, func(c *cell) bool { return c.is(values, at) }); n >= 0 {
		return cells[n]
	}
	info := g.newCellInfo(values, at)
	c := newCell(&info)
	return &c
}

// plannedFor finds a launch of the plan that has room for the allotments; nil when there is none.
// Groups with a spread over domains join no planned node.
func (c *colocation) plannedFor(allotments []*allotment) *sharedNode {
	var sum quantity.Vector
	for _, a := range allotments {
		if a.group.hasSpread() {
			return nil
		}
		sum = sum.Add(a.group.shape.Requests.Times(a.wanted))
	}
	c.spend(len(c.solver.launches.all))
	for _, l := range c.solver.launches.all {
		if !l.free.Holds(&sum) || l.pool.hasMinValues() {
			continue
		}
		used, ok := c.fit(allotments, podsOnNode{
			count:    l.counts.at,
			keptOff:  func(g *podGroup) bool { return l.residents.keepOff(&g.nodeRules) },
			attached: func(m cluster.Mount) bool { return l.mounts[m] },
		})
		if !ok || !l.free.Holds(&used) {
			continue
		}
		if reqs := c.join(l.requirements, l.pool, l.row, allotments); reqs != nil && c.allowed(allotments) {
			return &sharedNode{allotments: allotments, planned: l, requirements: reqs}
		}
	}
	return nil
}

// launchFor finds the first launch for the allotments, by weight of the pools and price; nil when
// there is none. Pools with minValues launch no nodes for colocations.
func (c *colocation) launchFor(allotments []*allotment) *sharedNode {
	used, ok := c.fit(allotments, podsOnNode{
		count: func(int) int { return 0 }, keptOff: func(*podGroup) bool { return false }, attached: func(cluster.Mount) bool { return false },
	})
	if !ok || !c.allowed(allotments) {
		return nil
	}
	for _, pools := range c.solver.pools.byWeight() {
		var best *sharedNode
		for _, pool := range pools {
			if found := c.launchFrom(pool, allotments, &used); found != nil && (best == nil || found.cheaperThan(best)) {
				best = found
			}
		}
		if best != nil {
			return best
		}
	}
	return nil
}

// launchFrom finds the cheapest launch from the pool for the allotments, which use that much. Of a launch
// with room for pods colocated later, the allotments pay only for their part. Where those cannot share it
// after all, its offering is chosen again for what it holds, as for every launch.
func (c *colocation) launchFrom(pool *poolState, allotments []*allotment, used *quantity.Vector) *sharedNode {
	s := c.solver
	if pool.hasMinValues() {
		return nil
	}
	rows := pool.available().Minus(pool.closed)
	if s.topology.mustNotOpenDomains {
		rows.Keep(s.topology.inCountedDomains(pool))
	}
	for _, a := range allotments {
		rows.Keep(s.compatibility.compatible(pool, a).All)
	}
	pool.DropNotFitting(rows, used)
	var best *sharedNode
	for row := range rows.All() {
		price := pool.Catalog.Offerings[row].Price / offering.Price(1+c.laterShares(pool, row, used))
		if best != nil && price >= best.price {
			continue
		}
		c.spend(len(allotments))
		if s.limits.nodesAllowed(pool, row) == 0 {
			continue
		}
		if reqs := c.join(pool.base, pool, row, allotments); reqs != nil {
			best = &sharedNode{allotments: allotments, pool: pool, row: row, price: price, requirements: reqs, used: *used}
		}
	}
	return best
}

// join adds what the allotments require on the offering; nil when it cannot hold together.
func (c *colocation) join(reqs *nodeRequirements, pool *poolState, row int, allotments []*allotment) *nodeRequirements {
	s := c.solver
	for _, a := range allotments {
		next, ok := s.requirements.join(reqs, pool, row, s.compatibility.compatible(pool, a), a)
		if !ok {
			return nil
		}
		reqs = next
	}
	return reqs
}

// podsOnNode reads what is on a node already.
type podsOnNode struct {
	count    func(counter int) int
	keptOff  func(*podGroup) bool
	attached func(cluster.Mount) bool
}

// fit returns what the allotments use on a node; false when their rules about other pods on the node
// do not let all of them go there.
func (c *colocation) fit(allotments []*allotment, on podsOnNode) (used quantity.Vector, ok bool) {
	var planned residents
	added, mounts := map[int]int{}, map[cluster.Mount]bool{}
	count := func(counter int) int { return on.count(counter) + added[counter] }
	for i, a := range allotments {
		g := a.group
		if planned.keepOff(&g.nodeRules) || on.keptOff(g) || g.nodeRules.restricted() && g.nodeRules.roomFor(&c.solver.counters, count) < a.wanted {
			return used, false
		}
		for _, o := range allotments[:i] {
			if g.maxPodsBesideEarlier(o.group, count) < a.wanted {
				return used, false
			}
		}
		used = used.Add(g.shape.Requests.Times(a.wanted))
		for _, m := range g.nodeRules.mounts {
			if !on.attached(m) && !mounts[m] {
				mounts[m] = true
				used[m.Dim]++
			}
		}
		planned.add(&g.nodeRules)
		for _, counter := range g.nodeRules.increments {
			added[counter] += a.wanted
		}
	}
	return used, true
}

// allowed reports whether the groups' rules over domains allow the allotments in their cells.
func (c *colocation) allowed(allotments []*allotment) bool {
	var counted []*allotment
	defer func() {
		for _, a := range counted {
			c.solver.topology.addToDomainCounts(a.group, a.cell, -1)
		}
	}()
	for _, a := range allotments {
		for n := 0; a.cell != nil && n < a.wanted; n++ {
			cells := c.cells[slices.Index(c.groups, a.group)]
			c.spend(len(cells))
			if !a.group.allowed(&c.solver.counters, a.cell, cells) {
				return false
			}
			c.solver.topology.addToDomainCounts(a.group, a.cell, 1)
			counted = append(counted, a)
		}
	}
	return true
}

// place puts the pods on the node. It reports false when there is no node, or no limits or quota for
// it.
func (c *colocation) place(n *sharedNode) bool {
	if n == nil {
		return false
	}
	s, l := c.solver, n.planned
	if n.pool != nil {
		l = &launch{pool: n.pool, row: n.row, free: n.pool.Allocatable[n.row]}
		if l.requirements = n.requirements; !s.minValues.reserveLaunch(l, &n.used) {
			return false
		}
		s.launches.all = append(s.launches.all, l)
	}
	for _, a := range n.allotments {
		if a.cell != nil {
			s.topology.addToDomainCounts(a.group, a.cell, a.wanted)
		}
		if l == nil {
			s.nodes.nominate(a.group, n.node, a.wanted)
			continue
		}
		if a.cell != nil {
			s.cells.noteAssigned(a.group, a.cell, a.wanted)
		}
		l.requirements = n.requirements
		a.group.allotted += a.wanted
		s.allotments = append(s.allotments, a)
		s.launches.addPods(l, a, a.wanted)
	}
	return true
}
