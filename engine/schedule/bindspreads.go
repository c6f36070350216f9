// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"math"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
)

// countsPerStep is how many counts a bindOrder changes in one step.
const countsPerStep = 64

// spreadsMayBlock reports whether some pods must be bound after others, because of a required term of
// their affinity, and before others, because a hard spread of theirs counts those.
func spreadsMayBlock(s *solver) bool {
	read := map[term][]*podGroup{}
	for _, g := range s.podGroups {
		if requiresTerms(g) {
			g.readBySpreads(read)
		}
	}
	return len(read) > 0 && slices.ContainsFunc(s.podGroups, func(g *podGroup) bool {
		return slices.ContainsFunc(s.selectingTerms(g, read), func(t term) bool {
			return slices.ContainsFunc(read[t], func(reader *podGroup) bool { return reader != g })
		})
	})
}

// readBySpreads adds the counts that the group's hard spreads read.
func (g *podGroup) readBySpreads(read map[term][]*podGroup) {
	add := func(t term) { read[t] = append(read[t], g) }
	for _, h := range g.nodeRules.spreads {
		add(term{counter: h.counter})
	}
	for i := range g.domainRules {
		if r := &g.domainRules[i]; r.isHardSpread() {
			add(term{domain: r.count})
		}
	}
}

// boundPods counts, for the hard spreads of a bindOrder, the pods that it has bound.
type boundPods struct {
	solver  *solver
	read    map[term][]*podGroup // the counts that spreads read, and the groups with these spreads
	counts  map[target]int
	domains map[*domainCount][]int
	least   map[*cluster.TopologySpread]int // of spreads over the hostname: once all pods are bound
	counted map[countedKey]bitset.Set       // see looksAt
	steps   int
}

// countedKey names the offerings of a pool that a count looks at.
type countedKey struct {
	count *domainCount
	pool  *poolState
}

func newBoundPods(s *solver) boundPods {
	out := boundPods{solver: s, read: map[term][]*podGroup{}, counts: map[target]int{}, domains: map[*domainCount][]int{}, least: map[*cluster.TopologySpread]int{}, counted: map[countedKey]bitset.Set{}}
	for _, g := range s.podGroups {
		g.readBySpreads(out.read)
	}
	clear(s.topology.launchedByCount) // launches were added since
	return out
}

// listDomains are the domains that the count looks at, with those of the plan's launches.
func (b *boundPods) listDomains(dc *domainCount) []int {
	out, ok := b.domains[dc]
	if ok {
		return out
	}
	existing := dc.domains
	if !b.solver.snapshot.InWhatIf() {
		existing = dc.listDomains(&b.solver.topology)
	}
	for v := range existing {
		out = append(out, v)
	}
	for _, v := range b.solver.topology.launchedDomains(dc) {
		if !existing[v] {
			out = append(out, v)
		}
	}
	b.domains[dc] = out
	return out
}

// looksAt reports whether the count looks at the batch's node.
func (b *boundPods) looksAt(dc *domainCount, at *batch) bool {
	if at.launch == nil {
		return dc.passes(b.solver.snapshot.Nodes[at.node])
	}
	if !dc.filter.admits(at.launch) {
		return false
	}
	key := countedKey{dc, at.launch.pool}
	rows, known := b.counted[key]
	if !known {
		rows = b.solver.topology.countedOfferings(dc, at.launch.pool)
		b.counted[key] = rows
	}
	return rows.Has(at.launch.row)
}

// countsChanged is how many counts a pod of the group changes.
func (g *podGroup) countsChanged() int {
	n := len(g.nodeRules.increments)
	for i := range g.domainIncrements {
		for _, in := range g.domainIncrements[i].counts {
			n += in.n
		}
	}
	return n
}

// exhausted reports whether no step is left. A step is a look whether spreads let a pod be bound,
// or pods that are bound. A plan whose order is not found by then counts as one that can be bound.
func (b *boundPods) exhausted() bool { return b.steps >= b.solver.searches.budgets[BindOrder] }

// bindWithSpreads binds one pod of the batch at a time, as long as the group's spreads let it.
func (b *bindOrder) bindWithSpreads(at *batch) (bound bool) {
	for at.count > 0 && !b.pods.exhausted() && b.spreadsAllow(at) {
		b.bind(at, 1)
		bound = true
	}
	return bound
}

// spreadsAllow reports whether the hard spreads of the batch's group let one more of its pods be bound.
func (b *bindOrder) spreadsAllow(at *batch) bool {
	b.pods.steps++
	for _, h := range at.group.nodeRules.spreads {
		t := term{counter: h.counter}
		n, ok := b.countAt(at, t)
		if ok && n+self(b.solver.counters.all[h.counter].of.includes(at.group.class))-b.leastOnNodes(at.group, h) > h.spread.MaxSkew {
			return false
		}
	}
	for i := range at.group.domainRules {
		r := &at.group.domainRules[i]
		if !r.isHardSpread() {
			continue
		}
		n, ok := b.countAt(at, term{domain: r.count})
		if ok && n+self(r.countsOwnPods)-b.leastInDomains(r) > r.maxSkew {
			return false
		}
	}
	return true
}

func self(counts bool) int {
	if counts {
		return 1
	}
	return 0
}

// countAt counts the pods at the batch's node or domain; false when its node does not have the label.
func (b *bindOrder) countAt(at *batch, t term) (int, bool) {
	where, ok := b.target(at, t)
	if !ok {
		return 0, false
	}
	n := b.pods.counts[where]
	switch {
	case t.domain != nil:
		n += b.countRunning(t.domain)[where.at]
	case where.launch == nil:
		n += b.solver.counters.all[t.counter].of.countOn(b.solver.snapshot.Nodes[where.at])
	}
	return n, true
}

// leastOnNodes is the count of the emptiest node once all pods are bound.
func (b *bindOrder) leastOnNodes(g *podGroup, h hostnameSpread) int {
	least, ok := b.pods.least[h.spread]
	if !ok {
		least = b.solver.leastOnNodes(g, h)
		b.pods.least[h.spread] = least
	}
	return least
}

// leastInDomains is the count of the emptiest domain; zero while there are fewer than minDomains.
func (b *bindOrder) leastInDomains(r *domainRule) int {
	domains := b.pods.listDomains(r.count)
	if len(domains) == 0 || len(domains) < r.minDomains {
		return 0
	}
	least, running := math.MaxInt, b.countRunning(r.count)
	for _, v := range domains {
		least = min(least, running[v]+b.pods.counts[target{term: term{domain: r.count}, at: v}])
	}
	return least
}

// count adds pods of the batch to the counts that spreads read.
func (b *bindOrder) count(at *batch, pods int) {
	if b.ignoreSpreads {
		return
	}
	for _, t := range b.solver.selectingTerms(at.group, b.pods.read) {
		if t.domain != nil && !b.pods.looksAt(t.domain, at) {
			continue
		}
		if where, ok := b.target(at, t); ok {
			b.pods.counts[where] += pods
		}
	}
}

// bindRank orders the pods that are ready to be bound.
type bindRank int

const (
	spreads   bindRank = iota // hard spreads hold them back, and nothing they do not count
	uncounted                 // no spread counts them
	awaited                   // spreads count them, and others wait for them
	counted                   // spreads count them: they may block those that are bound after them
	bindRanks
)

func (b *bindOrder) rank(g *podGroup) bindRank {
	switch {
	case b.ignoreSpreads:
		return uncounted
	case len(g.nodeRules.spreads) > 0 || slices.ContainsFunc(g.domainRules, domainRule.isHardSpread):
		return spreads
	case len(b.solver.selectingTerms(g, b.pods.read)) == 0:
		return uncounted
	case len(b.solver.selectingTerms(g, b.terms)) > 0:
		return awaited
	}
	return counted
}
