// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
)

// directions say how a plan chooses where several ways are right.
type directions struct {
	// first are classes that are placed before all others, one by one, in this order; see
	// placeLeftOutFirst.
	first []*cluster.PodClass
	// policy is how pods and nodes are chosen.
	policy policy
	// towards names, for some classes, the cell that their new nodes go to where rules allow it; see
	// tryOtherCells.
	towards map[*cluster.PodClass]string
}

// learned is what the rounds of one attempt found out, for the rounds after them.
type learned struct {
	directions // which rounds do not change

	podsPerCell map[learnedKey]int
	unplaceable map[*cluster.PodClass]bool
	// withoutPreferences are classes that hold no preference from the start.
	withoutPreferences map[*cluster.PodClass]bool
	// openedDomains are domains that a round opened with launches for other pods: they
	// count for a spread although its own pods could not have opened them.
	openedDomains map[domainCountKey][]int
	// minValuesLost are the pools whose launches have lost values; see learnMinValuesLost.
	minValuesLost map[*cluster.PoolCatalog]*minValuesLoss
	// joinLast are classes whose pods are placed after all others; see recordJoinLast and
	// recordUnbindable.
	joinLast map[*cluster.PodClass]bool
	// colocated are classes whose pods share nodes; see colocation.
	colocated    [][]*cluster.PodClass
	colocationOf map[*cluster.PodClass]int // index in colocated
	// withoutColocations is set when no colocation is to be learned.
	withoutColocations bool
	// passedOver are pods that had the first turn at a claim and got no place; see exclusiveClaims.
	passedOver map[claimTurn]bool
	turns      int // rounds in which pods were passed over
	// isLast is set when no round may follow the current one.
	isLast bool
}

func newLearned(d directions) *learned {
	return &learned{
		directions: d, podsPerCell: map[learnedKey]int{}, unplaceable: map[*cluster.PodClass]bool{}, withoutPreferences: map[*cluster.PodClass]bool{},
		openedDomains: map[domainCountKey][]int{}, minValuesLost: map[*cluster.PoolCatalog]*minValuesLoss{},
		joinLast: map[*cluster.PodClass]bool{}, colocationOf: map[*cluster.PodClass]int{},
		passedOver: map[claimTurn]bool{},
	}
}

// learnedKey names a class, the preferences its pods held, and a cell.
type learnedKey struct {
	class      *cluster.PodClass
	held, cell string
}

// maxLearningRounds is how many rounds may learn how much each cell takes. After that, classes
// with pods without a place are left to retryUnplaced.
const maxLearningRounds = 6

// learn records which assignments failed; false when all that matter succeeded.
func (l *learned) learn(s *solver, round int) bool {
	again := false
	var placed map[learnedKey]int
	for _, a := range s.allotments {
		if a.cell == nil || a.left()+a.dropped == 0 || l.unplaceable[a.group.class] {
			continue
		}
		if placed == nil {
			placed = placedInCells(s.allotments)
		}
		key := a.learnedKey()
		if round >= maxLearningRounds {
			again = l.giveUp(a) || again
			continue
		}
		if had, ok := l.podsPerCell[key]; !ok || placed[key] < had {
			l.podsPerCell[key], again = placed[key], true
		}
	}
	again = l.recordJoinLast(s) || again
	again = l.recordUnbindable(s) || again
	if round < maxLearningRounds {
		again = l.recordColocations(s, round) || again
	}
	return s.recordOpenedDomains(l, round) || again
}

// placedInCells is how many pods the allotments of a class placed in each cell together.
func placedInCells(allotments []*allotment) map[learnedKey]int {
	out := map[learnedKey]int{}
	for _, a := range allotments {
		if a.cell != nil {
			out[a.learnedKey()] += a.placed
		}
	}
	return out
}

// learnedKey names what is learned of the allotment.
func (a *allotment) learnedKey() learnedKey { return a.group.learnedKey(a.cell) }

// learnedKey names what is learned of the group's pods in the cell.
func (g *podGroup) learnedKey(c *cell) learnedKey { return learnedKey{g.class, g.held.key(), c.name} }

// uncertain counts the pods of classes about which rounds learned something: where they have a
// place, it may not be one where they can be bound.
func (l *learned) uncertain(s *solver) int {
	classes := map[*cluster.PodClass]bool{}
	for key := range l.podsPerCell {
		classes[key.class] = true
	}
	n := 0
	for _, g := range s.podGroups {
		if classes[g.class] || l.unplaceable[g.class] || l.joinLast[g.class] || l.isColocated(g.class) {
			n += len(g.pods)
		}
	}
	return n
}

// recordUnbindable records the classes whose pods can be bound in no order. Those that a spread refuses
// are placed after all others, and get no place when that was of no use; those that wait for each other
// get none. It reports false when that is known.
func (l *learned) recordUnbindable(s *solver) bool {
	refused, waiting := s.unbindableClasses()
	if len(refused) > 0 {
		waiting = nil // perhaps for these
	}
	found := false
	for _, c := range refused {
		if l.joinLast[c] {
			waiting = append(waiting, c)
			continue
		}
		l.joinLast[c], found = true, true
	}
	if found {
		return true
	}
	for _, c := range waiting {
		if !l.unplaceable[c] {
			l.unplaceable[c], found = true, true
		}
	}
	return found
}

// recordJoinLast records the classes of which a pod has a node as the first anywhere that its own affinity
// over the hostname selects, while others that it selects are bound before it, and it must join them then:
// those that go to existing nodes while it gets a new one, and those whose spread counts the pod and would
// keep them off afterwards. The same holds for affinity over zones and other domains, where the others go to
// existing nodes in other domains. It reports false when that is known.
func (l *learned) recordJoinLast(s *solver) bool {
	found := false
	var spreading map[int][]*podGroup
	for _, g := range s.podGroups {
		if g.placed == 0 || l.joinLast[g.class] {
			continue
		}
		if spreading == nil && g.joinsItself() {
			spreading = spreadingGroups(s.podGroups)
		}
		if slices.ContainsFunc(g.nodeRules.needs, func(d need) bool {
			if !d.selfSelecting || s.counters.runs(d.counter) > 0 {
				return false
			}
			spread := slices.ContainsFunc(spreading[d.counter], g.isSpreadBy)
			return (spread || s.counters.isPlanned(d.counter)) && s.launches.holdFirst(g, d.counter) || spread && s.placements.holdFirst(g, d.counter)
		}) {
			l.joinLast[g.class], found = true, true
		} else if s.placements.outrun(g, s.snapshot) {
			l.joinLast[g.class], found = true, true
		}
	}
	return found
}

// spreadingGroups are the groups with pods that have a place and a hard spread over domains, by the
// counters that count them.
func spreadingGroups(groups []*podGroup) map[int][]*podGroup {
	out := map[int][]*podGroup{}
	for _, g := range groups {
		if g.placed == 0 || !slices.ContainsFunc(g.domainRules, domainRule.isHardSpread) {
			continue
		}
		for _, c := range g.nodeRules.increments {
			out[c] = append(out[c], g)
		}
	}
	return out
}

// isSpreadBy reports whether a hard spread of the other group, which does not join others on a node,
// counts pods of the group.
func (g *podGroup) isSpreadBy(o *podGroup) bool {
	return o != g && !o.follows() && slices.ContainsFunc(o.domainRules, func(r domainRule) bool { return r.isHardSpread() && r.count.of.includes(g.class) })
}

// giveUp leaves out the allotment's class, or first its preferences as they may be the cause.
// It reports false when that was done already.
func (l *learned) giveUp(a *allotment) bool {
	if !a.group.held.notEmpty() {
		l.unplaceable[a.group.class] = true
		return true
	}
	had := l.withoutPreferences[a.group.class]
	l.withoutPreferences[a.group.class] = true
	return !had
}

// mayHaveOpened reports whether pods with the spread are too many beside the domain, which they did not
// count while it was empty: required affinity or anti-affinity allowed none of them there.
func mayHaveOpened(g *podGroup, r *domainRule, domain int) bool {
	return r.count.most() > r.count.count(domain)+r.maxSkew &&
		slices.ContainsFunc(g.domainRules, func(o domainRule) bool { return o.kind != spreadRule && !o.soft })
}

// recordOpenedDomains records the domains that launches opened and some spread did not count;
// false when there are none.
func (s *solver) recordOpenedDomains(l *learned, round int) bool {
	found := false
	clear(s.topology.launchedByCount)
	s.topology.summary = s.topology.summarizeLaunches()
	defer func() { s.topology.summary = nil }()
	for _, pool := range s.pools.all {
		pool.inCountedDomains = nil
	}
	for _, g := range s.podGroups {
		for i := range g.domainRules {
			r := &g.domainRules[i]
			if r.kind != spreadRule || r.soft || g.placed == 0 {
				continue
			}
			if g.cells == nil { // it was placed with others, by a colocation
				g.cells = s.cells.find(g)
			}
			var known []int
			key := domainCountKey{r.count.key, r.count.of, r.count.filter}
			for _, v := range s.topology.launchedDomains(r.count) {
				if r.count.domains[v] || slices.Contains(r.count.launched, v) || slices.Contains(l.openedDomains[key], v) {
					continue
				}
				if known == nil {
					known = g.usableValues(nil, r, g.cells, g.noneToJoin(&s.counters))
				}
				if slices.Contains(known, v) && !mayHaveOpened(g, r, v) {
					continue
				}
				found = true
				if round >= maxLearningRounds {
					l.unplaceable[g.class] = true
					break
				}
				l.openedDomains[key] = append(l.openedDomains[key], v)
			}
		}
	}
	return found
}
