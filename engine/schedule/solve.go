// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
)

// Solve decides which nodes to launch for the snapshot's pending pods. It reads nothing but
// w. That a pod cannot be placed is part of the plan and not an error, so Solve returns no
// error.
//
// Pods that are constrained over zones or other topology domains are assigned to domains
// before offerings are chosen. Where limits or quota then leave out some of them, the domain
// counts by which the others were placed are wrong: Solve records how many pods each cell
// really took and starts again.
//
// Other pods do not see virtual pods, so virtual pods are placed last.
//
// Preferences are honoured as far as the snapshot's Settings allow: see preferenceSearch.
func Solve(w *cluster.Snapshot) Plan {
	b := newPreferenceSearch(w)
	plain := b.attempt(nil, noMaxPrice)
	if len(b.items) == 0 {
		return plain.plan()
	}
	return b.choose(plain)
}

// solver makes one attempt: it places pod groups by asking the parts that own what the attempt
// changes. The parts are made from what they need, and none of them refers to the solver.
type solver struct {
	w             *cluster.Snapshot
	learned       *learned
	podGroups     []*podGroup
	allotments    []*allotment
	pools         poolList
	quota         quota
	limits        limits
	counters      counters
	nodes         nodes
	launches      launchList
	placements    placements
	topology      topology
	minValues     minValuesChecker
	compatibility compatibility
	cells         cellFinder
	choice        offeringChooser
	descriptions  descriptions
	requirements  requirementSets
	search        *preferenceSearch
	improved      improvement
}

// podGroup is a pod class with the pods still to be placed. Pods that have dropped a
// preference which others of their class still require are a group of their own.
type podGroup struct {
	class            *cluster.PodClass
	shape            *cluster.PodShape // the class's, narrowed by the preferences that are held
	pods             []cluster.PodRef  // the class's pods that are in this group
	held             heldPreferences
	placed           int
	allotted         int // pods in allotments that nodes are to be launched for
	nodeRules        nodeRules
	domainKeys       []*constraint.Key // of its rules and domain counts; no hostname
	domainRules      []domainRule
	domainIncrements []increment
	spreadFilters    []*spreadFilter
	cells            []*cell
}

// left is how many pods have no place yet, not even a planned one.
func (g *podGroup) left() int { return len(g.pods) - g.placed - g.allotted }

// take hands out the next n pods.
func (g *podGroup) take(n int) []cluster.PodRef {
	pods := g.pods[g.placed : g.placed+n]
	g.placed += n
	return pods
}

func newPodGroup(c *cluster.PodClass, pods []cluster.PodRef, t heldPreferences) *podGroup {
	return &podGroup{class: c, shape: c.Requiring(t.terms, t.offTaints), pods: pods, held: t}
}

func newSolver(b *preferenceSearch, l *learned, d honoured, maxPrice offering.Price) *solver {
	w := b.w
	s := &solver{search: b, w: w, learned: l, quota: newQuota(w.QuotaLeft), requirements: newRequirementSets()}
	s.limits = newLimits(&s.pools, &s.quota, maxPrice)
	s.counters = newCounters(w, termsOf(w))
	s.placements = placements{wanted: len(b.items) > 0 || b.sketching}
	s.launches = launchList{counters: &s.counters, placements: &s.placements}
	s.nodes = newNodes(w, nodePreferences{minds: b.minds, sorted: d != nil}, &s.counters, &s.placements)
	s.topology = newTopology(&s.counters, &s.pools, &s.launches, l.openedDomains)
	s.minValues = minValuesChecker{limits: &s.limits, quota: &s.quota, topology: &s.topology, lost: l.minValuesLost, mayRelax: w.Settings.RelaxMinValues}
	s.choice = offeringChooser{limits: &s.limits, quota: &s.quota, topology: &s.topology, minValues: &s.minValues}
	s.compatibility = compatibility{topology: &s.topology, byCell: map[compatibleKey]*cluster.Compatible{}, shared: b.compatible}
	s.cells = cellFinder{pools: &s.pools, nodes: &s.nodes, launches: &s.launches, limits: &s.limits, topology: &s.topology, minValues: &s.minValues, learned: l,
		byKey: map[cellsKey][]cell{}, atStart: b.cells}
	s.descriptions = descriptions{w: w, pools: &s.pools, launches: &s.launches, quota: &s.quota, topology: &s.topology, requirements: &s.requirements, minValues: &s.minValues, choice: &s.choice,
		byKey: map[descriptionKey]*launchDescription{}, runnersUpByKey: map[runnersUpKey][]RunnerUp{}, shapeNumbers: map[*cluster.PodShape]int{}}
	for _, c := range w.Classes {
		var t heldPreferences
		if honour := d[c]; len(honour) > 0 && !l.withoutPreferences[c] && !l.unplaceable[c] {
			t = b.held(c, honour)
		}
		s.podGroups = append(s.podGroups, newPodGroup(c, c.Pods, t))
	}
	if !b.barred {
		s.openPools()
	}
	s.counters.compileAll(s.podGroups)
	s.topology.compileAll(s.podGroups)
	return s
}

// openPools makes the state of each NodePool.
func (s *solver) openPools() {
	for _, m := range s.w.Catalogs {
		pool := &poolState{PoolCatalog: m, availableRows: availableFromMemo(s.w, m), left: m.Left, nodesLeft: m.NodesLeft, base: s.requirements.intern(m.Base, m.Offerings), pods: map[*cluster.PodShape]int{}, limitedPods: map[int]limitedPods{}}
		pool.minValues = s.minValues.newPoolMinValues(pool)
		s.pools.all = append(s.pools.all, pool)
	}
}

// run places all virtual pods, or all others. It reports false when there are none.
func (s *solver) run(virtual bool) bool {
	groups := slices.DeleteFunc(s.byPriority(), func(g []*podGroup) bool { return g[0].class.Virtual != virtual })
	s.runAll(groups)
	return len(groups) > 0
}

func (s *solver) runAll(groups [][]*podGroup) {
	for i, group := range groups {
		groups[i] = s.place(group)
	}
	// Pods of high priority may have to join pods of lower priority.
	for {
		var late []*podGroup
		before := 0
		for _, group := range groups {
			for _, g := range group {
				if g.left() > 0 && g.hasAffinity() {
					late, before = append(late, g), before+g.placed
				}
			}
		}
		s.place(late)
		for _, g := range late {
			before -= g.placed
		}
		if before == 0 {
			return
		}
	}
}

// place places a list of pod groups: on nodes, on planned launches, and on nodes launched for
// them. Pods that find no place drop their preferences, one at a time. It returns the groups
// together with those that this made.
func (s *solver) place(group []*podGroup) []*podGroup {
	var all []*podGroup
	for len(group) > 0 {
		allotments, met := s.assign(group)
		all = append(all, met...)
		s.allotments = append(s.allotments, allotments...)
		s.placeOnLaunches(allotments)
		s.fillLaunches(allotments)
		s.retryNodes(allotments)
		group = s.unplaced(allotments)
	}
	return all
}

// buyAll puts pods of the allotments on planned launches, and launches more nodes for the
// others.
func (s *solver) placeOnLaunches(allotments []*allotment) {
	s.fillLaunches(allotments)
	tiers := s.pools.byWeight()
	for i, tier := range tiers {
		s.launchFromPools(tier, i == len(tiers)-1, allotments)
	}
}

// comeBack tries the nodes again for pods that must join other pods there: those may have been
// placed after the first try.
func (s *solver) retryNodes(allotments []*allotment) {
	for _, a := range allotments {
		n := a.left()
		if n == 0 || a.cell != nil || len(a.group.nodeRules.needs) == 0 {
			continue
		}
		a.wanted, a.group.allotted = a.wanted-n, a.group.allotted-n
		s.nodes.fill(a.group)
		a.wanted, a.group.allotted = a.wanted+a.group.left(), a.group.allotted+a.group.left()
	}
}

// byPriority groups the pod groups by priority, the highest first: when limits or quota do
// not suffice for all pods, those of the highest priority get nodes.
func (s *solver) byPriority() [][]*podGroup {
	var out [][]*podGroup
	for _, g := range s.podGroups {
		if g.class.Refused != "" || s.learned.unplaceable[g.class] {
			continue
		}
		if n := len(out); n > 0 && out[n-1][0].class.Priority == g.class.Priority && out[n-1][0].class.Virtual == g.class.Virtual {
			out[n-1] = append(out[n-1], g)
			continue
		}
		out = append(out, []*podGroup{g})
	}
	return out
}

// tiers groups the pools of equal weight, the heaviest first.
func (s *poolList) byWeight() [][]*poolState {
	var out [][]*poolState
	for _, pool := range s.all {
		if pool.Pool.Blocked != "" || pool.Pool.Static {
			continue
		}
		if n := len(out); n > 0 && out[n-1][0].Pool.Weight == pool.Pool.Weight {
			out[n-1] = append(out[n-1], pool)
			continue
		}
		out = append(out, []*poolState{pool})
	}
	return out
}
