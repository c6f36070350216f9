// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"maps"
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
)

// summarize counts the preferences that hold once every pod is placed, whether or not the
// attempt tried to honour them: together, and by weight. p is the plan of the attempt. A launch counts
// as its first offering. For a spread, every domain counts in which the pods could run or a node be
// launched for them.
func (ps *preferenceSearch) summarize(s *solver, p *Plan) (Preferences, map[int32]int) {
	a := ps.audit(s, p)
	var out Preferences
	byWeight := map[int32]int{}
	for _, c := range ps.snapshot.Classes {
		for _, p := range ps.wanted[c] {
			n := a.honoured(c, p)
			out.Asked, out.Honoured = out.Asked+len(c.PodsToPlace), out.Honoured+n
			byWeight[p.weight] += n
		}
	}
	return out, byWeight
}

// honoursMore reports whether more preferences hold: of the largest weight in which the counts differ.
func honoursMore(a, b map[int32]int) bool {
	for _, weight := range slices.Backward(slices.Sorted(maps.Keys(a))) {
		if a[weight] != b[weight] {
			return a[weight] > b[weight]
		}
	}
	return false
}

// audit examines an attempt, of which p is the plan.
func (ps *preferenceSearch) audit(s *solver, p *Plan) *preferenceAudit {
	a := &preferenceAudit{
		snapshot: ps.snapshot, pools: &s.pools, topology: &s.topology, plan: p,
		placementsOf: map[*cluster.PodClass][]placement{}, index: map[*launch]int{}, counts: map[labelCountKey]map[int]int{},
	}
	for _, at := range s.placements.all {
		a.placementsOf[at.group.class] = append(a.placementsOf[at.group.class], at)
	}
	for i, l := range s.launches.all {
		a.index[l] = i
	}
	return a
}

// preferenceAudit counts the preferences that a finished plan meets.
type preferenceAudit struct {
	snapshot     *cluster.Snapshot
	pools        *poolList
	topology     *topology
	plan         *Plan
	placementsOf map[*cluster.PodClass][]placement
	index        map[*launch]int
	counts       map[labelCountKey]map[int]int
}

// labelCountKey names counts of selected pods by the values of a label.
type labelCountKey struct {
	of  countedPods
	key *constraint.Key
}

// honoured counts the pods of the class for which the preference holds.
func (a *preferenceAudit) honoured(c *cluster.PodClass, p preference) int {
	holds := a.judge(c, p)
	n := 0
	for _, at := range a.placementsOf[c] {
		if holds(at) {
			n += at.count
		}
	}
	return n
}

// judge returns a function that reports whether the preference holds for pods at a placement.
func (a *preferenceAudit) judge(c *cluster.PodClass, p preference) func(placement) bool {
	switch p.kind {
	case podAffinity:
		n := c.Affinity[p.index]
		counts, self := a.count(countedPods{selector: n.Selector, skipVirtual: !c.Virtual}, n.Key), ownCount(n.Selector.Selects(c))
		total := 0
		for _, have := range counts {
			total += have
		}
		return func(at placement) bool {
			v := a.value(at, n.Key)
			return v >= 0 && (counts[v] > self || counts[v] == self && self > 0 && total == self)
		}
	case podAntiAffinity:
		n := c.AntiAffinity[p.index]
		counts, self := a.count(countedPods{selector: n.Selector, skipVirtual: !c.Virtual}, n.Key), ownCount(n.Selector.Selects(c))
		return func(at placement) bool {
			v := a.value(at, n.Key)
			return v == missing || v >= 0 && counts[v] == self
		}
	case nodeAffinity:
		return func(at placement) bool { return a.meets(at, c.Preferred[p.index].Term) }
	case softSpread:
		return a.spread(c, &c.Spreads[p.index])
	}
	return func(at placement) bool {
		if at.launch == nil {
			return !c.LacksSoftToleration(a.snapshot.Nodes[at.node].Taints)
		}
		return !c.LacksSoftToleration(at.launch.pool.Pool.Taints)
	}
}

// count counts the selected pods by the values of a label, with all pods placed. For the
// hostname, pods on nodes that take no pods are near no new pod, but they count in the
// total, so a new pod is not the first of its kind.
func (a *preferenceAudit) count(of countedPods, key *constraint.Key) map[int]int {
	name := labelCountKey{of, key}
	if counts := a.counts[name]; counts != nil {
		return counts
	}
	counts := map[int]int{}
	of.each(a.snapshot, func(node *cluster.NodeInfo, n int) {
		v, ok := node.Value(key)
		if key.Name == cluster.LabelHostname {
			v, ok = node.Index, true // -1 for a node that takes no pods
		}
		if ok {
			counts[v] += n
		}
	})
	a.countPlacements(of, func(v, n int) { counts[v] += n }, func(at placement) int { return a.value(at, key) })
	a.counts[name] = counts
	return counts
}

// countPlacements adds the pods that the plan places.
func (a *preferenceAudit) countPlacements(of countedPods, add func(v, n int), value func(placement) int) {
	for _, c := range a.snapshot.Classes {
		if !of.includes(c) {
			continue
		}
		for _, at := range a.placementsOf[c] {
			if v := value(at); v >= 0 {
				add(v, at.count)
			}
		}
	}
}

// spread judges a soft spread by the counts of all nodes that it looks at.
func (a *preferenceAudit) spread(c *cluster.PodClass, e *cluster.TopologySpread) func(placement) bool {
	if e.Key.Name == cluster.LabelHostname {
		counts := a.count(countedPods{selector: e.Selector, skipTerminating: true, skipVirtual: !c.Virtual}, e.Key)
		return func(at placement) bool { return counts[a.value(at, e.Key)] <= e.MaxSkew }
	}
	dc := a.topology.countRunning(spreadKey(c, e, e.Key.Name+"\x00"), []*constraint.Key{e.Key})
	seen := func(at placement) int {
		if at.launch == nil && dc.passes(a.snapshot.Nodes[at.node]) || at.launch != nil && a.topology.countedOfferings(dc, at.launch.pool).Has(at.launch.first) {
			return a.value(at, e.Key)
		}
		return missing
	}
	a.countPlacements(dc.of, dc.add, seen)
	r := domainRule{count: dc, minDomains: 1}
	least := r.least(append(a.launchableValues(c, e.Key), a.topology.launchedDomains(dc)...))
	return func(at placement) bool {
		v := a.value(at, e.Key)
		return v >= 0 && dc.count(v)-least <= e.MaxSkew
	}
}

// launchableValues lists the values of a label that nodes launched for the class could have:
// those of available offerings that fit it.
func (a *preferenceAudit) launchableValues(c *cluster.PodClass, key *constraint.Key) []int {
	var out []int
	for _, pool := range a.pools.all {
		if pool.Pool.Blocked != "" || pool.Pool.Static {
			continue
		}
		rows := pool.Compatible(c.PodShape).All
		for _, cell := range pool.Cells([]*constraint.Key{key}) {
			for row := range rows.And(cell.Offerings).All() {
				if pool.Catalog.Offerings[row].Unavailable == "" {
					out = append(out, cell.Values[0])
					break
				}
			}
		}
	}
	return out
}

// These are the results of value for a label that a placement does not have, or whose value
// is not settled yet.
const (
	missing = -1 - iota
	undecided
)

// value is the value of a label at a placement. Hostnames are numbered: existing nodes first,
// then nodes to be launched.
func (a *preferenceAudit) value(at placement, key *constraint.Key) int {
	if at.launch == nil {
		if key.Name == cluster.LabelHostname {
			return at.node
		}
		if v, ok := a.snapshot.Nodes[at.node].Value(key); ok {
			return v
		}
		return missing
	}
	i := a.index[at.launch]
	if key.Name == cluster.LabelHostname {
		return len(a.snapshot.Nodes) + i
	}
	if v, ok := a.plan.Launches[i].Labels[key.Name]; ok {
		return key.ID(v)
	}
	return at.launch.value(key)
}

// value is the value of a label on the launch as its first offering.
func (l *launch) value(key *constraint.Key) int {
	q, asked := l.requirements.set().Get(key)
	found := missing
	for _, c := range l.pool.Cells([]*constraint.Key{key}) {
		v := c.Values[0]
		if v < 0 || !c.Offerings.Has(l.first) || asked && !q.Admits(v) {
			continue
		}
		if found >= 0 {
			return undecided
		}
		found = v
	}
	return found
}

// meets reports whether the placement's labels meet the term, whatever values those that are
// not settled yet will have.
func (a *preferenceAudit) meets(at placement, term constraint.Set) bool {
	if at.launch == nil {
		return a.snapshot.Nodes[at.node].Matches(term)
	}
	for _, q := range term {
		switch v := a.value(at, q.Key); {
		case q.Key.Name == cluster.LabelHostname:
			return false
		case v == missing && !q.AdmitsAbsent(), v == undecided, v >= 0 && !q.Admits(v):
			return false
		}
	}
	return true
}
