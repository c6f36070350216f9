// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
)

// Solve decides which nodes to launch for the snapshot's pending pods. It reads nothing
// else. That a pod cannot be placed is part of the plan and not an error, so Solve returns no
// error.
//
// Pods that are constrained over zones or other topology domains are assigned to domains
// before offerings are chosen. Where limits or quota then leave out some of them, the domain
// counts by which the others were placed are wrong: Solve records how many pods each cell
// really took and starts again.
//
// Other pods do not see virtual pods, so virtual pods are placed last.
//
// Where controllers have yet to create more pods like those to be placed, nodes are chosen that suit these
// as well: see planForOwed.
//
// Preferences are honoured as far as the snapshot's Settings allow: see preferenceSearch.
func Solve(snapshot *cluster.Snapshot) Plan {
	return newPreferenceSearch(snapshot).decide()
}

// solver makes one round of an attempt: it places pod groups by asking the parts that own what the
// round changes. The parts are made from what they need, and none of them refers to the solver.
type solver struct {
	snapshot      *cluster.Snapshot
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
	offerings     offeringChooser
	descriptions  descriptions
	requirements  requirementSets
	preferences   *preferenceSearch
	searches      searches
}

// newSolver prepares a round of an attempt that honours some preferences, with what earlier rounds
// learned.
func newSolver(ps *preferenceSearch, l *learned, chosen chosenPreferences, maxPrice offering.Price) *solver {
	snapshot := ps.snapshot
	s := &solver{preferences: ps, snapshot: snapshot, learned: l, quota: newQuota(snapshot.QuotaLeft), requirements: newRequirementSets(), searches: searches{budgets: ps.options.budgets}}
	s.limits = newLimits(&s.pools, &s.quota, maxPrice)
	s.counters = newCounters(snapshot, antiAffinityTermsOf(snapshot))
	s.placements = placements{enabled: len(ps.byWeight) > 0 || ps.options.placeAllOrStop}
	s.launches = launchList{counters: &s.counters, placements: &s.placements, policy: l.policy, dims: snapshot.Resources.Len()}
	s.nodes = newNodes(snapshot, nodePreferences{classes: ps.distinguishNodes, preferredFirst: chosen != nil}, &s.counters, &s.placements)
	s.topology = newTopology(&s.counters, &s.pools, &s.launches, l.openedDomains)
	s.requirements.topology = &s.topology
	s.minValues = minValuesChecker{limits: &s.limits, quota: &s.quota, topology: &s.topology, lost: l.minValuesLost, mayRelax: snapshot.Settings.RelaxMinValues}
	s.offerings = offeringChooser{limits: &s.limits, quota: &s.quota, topology: &s.topology, minValues: &s.minValues}
	s.compatibility = compatibility{topology: &s.topology, byCell: map[compatibleKey]*cluster.CompatibleOfferings{}, shared: ps.compatible}
	s.cells = cellFinder{
		pools: &s.pools, nodes: &s.nodes, launches: &s.launches, limits: &s.limits, topology: &s.topology,
		requirements: &s.requirements, compatibility: &s.compatibility, minValues: &s.minValues, learned: l, assigned: map[learnedKey]int{}, byKey: map[cellsKey][]cellInfo{}, atStart: ps.cells,
	}
	s.descriptions = descriptions{
		snapshot: snapshot, pools: &s.pools, launches: &s.launches, quota: &s.quota, topology: &s.topology,
		requirements: &s.requirements, minValues: &s.minValues, offerings: &s.offerings,
		byKey: map[descriptionKey]*launchDescription{}, runnersUpByKey: map[runnersUpKey][]RunnerUp{}, shapeNumbers: map[*cluster.PodShape]int{},
		amountsOf: map[quantity.Vector]quantity.Amounts{},
	}
	waits := ps.claims.waits(l.passedOver)
	s.podGroups = make([]*podGroup, 0, len(snapshot.Classes))
	for _, c := range snapshot.Classes {
		var held heldPreferences
		if list := chosen[c]; len(list) > 0 && !l.withoutPreferences[c] && !l.unplaceable[c] {
			held = ps.initiallyHeld(c, list)
		}
		s.podGroups = append(s.podGroups, podGroupsOf(c, held, waits)...)
	}
	if !ps.options.noLaunches {
		s.makePoolStates()
	}
	s.counters.compileAll(s.podGroups)
	s.topology.compileAll(s.podGroups)
	s.placements.enabled = s.placements.enabled || s.mayWaitForEachOther() || spreadsMayBlock(s) || len(snapshot.Nodes) > 0 && slices.ContainsFunc(s.podGroups, mayBeOutrun)
	return s
}

// makePoolStates makes the state of each NodePool.
func (s *solver) makePoolStates() {
	s.pools = newPoolList(len(s.snapshot.PoolCatalogs))
	for _, m := range s.snapshot.PoolCatalogs {
		pool := &poolState{
			PoolCatalog: m, availableRows: availableFromMemo(s.snapshot, m), left: m.Left, nodesLeft: m.NodesLeft,
			base: s.requirements.intern(ofPool(m.NodeRequirements), m.Offerings), pods: map[*cluster.PodShape]int{}, limitedPods: map[int]limitedPods{},
		}
		pool.tooSmall = s.preferences.options.tooSmall[m]
		pool.minValues = s.minValues.newPoolMinValues(pool)
		s.pools.add(pool)
	}
}

// placeAll places all virtual pods, or all others.
func (s *solver) placeAll(virtual bool) {
	s.placeGroups(slices.DeleteFunc(s.byPriority(), func(g []*podGroup) bool { return g[0].class.Virtual != virtual }))
}

// placeGroups places the groups of each priority in turn.
func (s *solver) placeGroups(groups [][]*podGroup) {
	for i, group := range groups {
		groups[i] = s.place(group)
	}
	// Pods of high priority may have to join pods of lower priority.
	for {
		var late []*podGroup
		before := 0
		for _, group := range groups {
			for _, g := range group {
				if g.unassigned() > 0 && g.hasAffinity() {
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
func (s *solver) place(groups []*podGroup) []*podGroup {
	var all []*podGroup
	s.placeColocated(groups)
	for len(groups) > 0 {
		allotments, assigned := s.assign(groups)
		all = append(all, assigned...)
		s.allotments = append(s.allotments, allotments...)
		s.placeOnLaunches(allotments)
		s.fillLaunches(allotments)
		s.retryNodes(allotments)
		groups = s.relaxUnplaced(allotments)
	}
	return all
}

// placeOnLaunches puts pods of the allotments on planned launches, and launches more nodes for
// the others.
func (s *solver) placeOnLaunches(allotments []*allotment) {
	s.fillLaunches(allotments)
	weights := s.pools.byWeight()
	for i, pools := range weights {
		s.launchFromPools(pools, i == len(weights)-1, allotments)
	}
}

// retryNodes tries the nodes again for pods that must join other pods there: those may have
// been placed after the first try.
func (s *solver) retryNodes(allotments []*allotment) {
	for _, a := range allotments {
		n := a.left()
		if n == 0 || a.cell != nil || len(a.group.nodeRules.needs) == 0 {
			continue
		}
		a.wanted, a.group.allotted = a.wanted-n, a.group.allotted-n
		s.nodes.fill(a.group)
		a.wanted, a.group.allotted = a.wanted+a.group.unassigned(), a.group.allotted+a.group.unassigned()
	}
}

// byPriority groups the pod groups by priority, the highest first: when limits or quota do not
// suffice for all pods, those of the highest priority get nodes. Classes that join other pods last
// (see recordJoinLast) come after all others, and some that were left out come first (see
// placeLeftOutFirst).
func (s *solver) byPriority() [][]*podGroup {
	var out, last [][]*podGroup
	first := make([][]*podGroup, len(s.learned.first))
	for _, g := range s.podGroups {
		if g.excluded() || s.learned.unplaceable[g.class] {
			continue
		}
		if i := s.learned.rankFirst(g.class); i >= 0 {
			first[i] = append(first[i], g)
			continue
		}
		list := &out
		if s.learned.joinLast[g.class] {
			list = &last
		}
		if n := len(*list); n > 0 && (s.learned.policy.anyPriority || (*list)[n-1][0].class.Priority == g.class.Priority) && (*list)[n-1][0].class.Virtual == g.class.Virtual {
			(*list)[n-1] = append((*list)[n-1], g)
			continue
		}
		*list = append(*list, []*podGroup{g})
	}
	if s.learned.policy.groupByGroup {
		out = slices.Collect(slices.Chunk(slices.Concat(out...), 1))
	}
	first = slices.DeleteFunc(first, func(g []*podGroup) bool { return len(g) == 0 })
	return slices.Concat(first, out, last)
}

// placeAndImprove places all virtual pods, or all others. It reports false when it learned
// something and another round is needed. Launches for virtual pods open no domain that would keep a
// real pod off its node.
func (s *solver) placeAndImprove(virtual bool, round int) bool {
	if s.limits.overMaxPrice() || !slices.ContainsFunc(s.podGroups, func(g *podGroup) bool { return g.class.Virtual == virtual }) {
		return true
	}
	if virtual {
		s.spreadOverNodes(false)
		s.topology.recount(s.podGroups)
		s.topology.rememberOpened()
		if slices.ContainsFunc(s.podGroups, (*podGroup).isHeldBySpread) {
			s.topology.mustNotOpenDomains, s.topology.mayOpenEmpty = true, true
			defer func() { s.topology.mustNotOpenDomains, s.topology.mayOpenEmpty = false, false }()
		}
	}
	if s.placeAll(virtual); s.limits.overMaxPrice() {
		return true
	}
	if s.learned.learn(s, round) {
		if !s.learned.isLast {
			return false
		}
		s.searches.cut(Rounds, max(1, s.learned.uncertain(s)))
	}
	s.improve()
	s.retryUnplaced(virtual)
	return true
}
