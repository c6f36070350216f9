// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"math"
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
)

// launch is a node the plan launches.
type launch struct {
	pool *poolState
	row  int
	// free is the offering's allocatable, with minValues at most what enough values have (see
	// largestWithMinValues), less what the pods use.
	free         quantity.Vector
	used         quantity.Vector // what the pods ask for
	requirements *nodeRequirements
	pods         []cluster.PodRef
	content      []portion   // the same pods, in order
	groups       []*podGroup // the pod groups of the pods, each once
	first        int         // the first offering, once chosen

	index     int         // in the launchList, as far as that has indexed it
	counts    numbersByID // counters above zero
	residents residents
	mounts    map[cluster.Mount]bool
	// requiredValues is how many values of each label with minValues the launch must list;
	// reservedCapacity is what it takes of its pool's limits. Both are nil without minValues.
	requiredValues   []int
	reservedCapacity *quantity.Vector
}

// firstOffering is the first of the offerings that the launch accepts, once chosen.
func (l *launch) firstOffering() *offering.CatalogOffering { return &l.pool.Catalog.Offerings[l.first] }

// isForOwed reports whether some of the pods are of a class of which more are owed.
func (l *launch) isForOwed() bool {
	return slices.ContainsFunc(l.groups, func(g *podGroup) bool { return g.class.Owed > 0 })
}

// reserved is the capacity that the launch takes of its pool's limits.
func (l *launch) reserved() *quantity.Vector {
	if l.reservedCapacity != nil {
		return l.reservedCapacity
	}
	return l.pool.capacity(l.row)
}

// fillLaunches puts pods on nodes that are to be launched already.
func (s *solver) fillLaunches(allotments []*allotment) {
	s.fillLaunchesWhere(allotments, func(*launch) bool { return true })
}

// fillLaunchesWhere is fillLaunches for some launches.
func (s *solver) fillLaunchesWhere(allotments []*allotment, suits func(*launch) bool) {
	for _, a := range allotments {
		for i := s.launches.next(0, a.group); i >= 0 && a.left() > 0; i = s.launches.next(i+1, a.group) {
			l := s.launches.all[i]
			if !suits(l) {
				continue
			}
			n := min(a.left(), l.roomFor(&s.counters, a.group))
			if n == 0 {
				continue
			}
			next, ok := s.requirements.join(l.requirements, l.pool, l.row, s.compatibility.compatible(l.pool, a), a)
			if !ok {
				continue
			}
			if n = l.addableWithMinValues(&s.minValues, next, a.group, n); n > 0 {
				l.requirements = next
				s.launches.addPods(l, a, n)
				if s.minValues.relaxReserved(l) {
					s.launches.someDropped = true
				}
			}
		}
	}
}

// podsByGroup yields the groups of the launch's pods, some perhaps several times, and how many each has.
func (l *launch) podsByGroup(yield func(*podGroup, int) bool) {
	for _, p := range l.content {
		if !yield(p.allotment.group, p.n) {
			return
		}
	}
}

// roomFor is how many pods of the group the launch has capacity for.
func (l *launch) roomFor(cs *counters, g *podGroup) int {
	n := g.countFitting(&l.free)
	if n == 0 || l.residents.keepOff(&g.nodeRules) {
		return 0
	}
	if g.hasSpread() && l.residents.mayLimit(&g.nodeRules, n, l.counts.at) {
		for _, o := range l.groups {
			n = min(n, g.maxPodsBesideEarlier(o, countWithoutLast(o, l.podsByGroup)))
		}
	}
	if n == 0 || !g.nodeRules.restricted() {
		return n
	}
	n = min(n, g.nodeRules.roomFor(cs, l.counts.at))
	if n > 0 && len(g.nodeRules.mounts) > 0 {
		left, ok := mounted(l.free, g.nodeRules.mounts, func(m cluster.Mount) bool { return l.mounts[m] })
		if !ok {
			return 0
		}
		n = min(n, g.countFitting(&left))
	}
	return n
}

// addPodCounts counts pods that the pool's nodes are launched for.
func (pool *poolState) addPodCounts(g *podGroup, n int) {
	pool.pods[g.class.PodShape] += n
	for _, c := range g.nodeRules.maxCounts {
		if c.countsOwnPods {
			limited := pool.limitedPods[c.counter]
			pool.limitedPods[c.counter] = limitedPods{pods: limited.pods + n, perNode: max(limited.perNode, c.max)}
		}
	}
}

// launchList is the nodes that a round launches.
type launchList struct {
	all        []*launch
	counters   *counters
	placements *placements
	policy     policy
	// someDropped is set once launches were dropped, or list fewer values, and limits and quota released.
	someDropped bool
	// free is the free capacity of the first indexed of all, once there are many; see next.
	free    *cluster.FreeCapacity
	slots   int // of free
	dims    int // how many resources have a position
	indexed int
	scratch launchScratch
}

// fewLaunchesToWalk is how many launches are walked through: an index pays off beyond.
const fewLaunchesToWalk = 64

// next returns the index of the first launch from i with enough free capacity for a pod of the group,
// whatever other pods are there; -1 when there is none.
func (ll *launchList) next(i int, g *podGroup) int {
	if len(ll.all) <= fewLaunchesToWalk {
		for ; i < len(ll.all); i++ {
			if g.countFitting(&ll.all[i].free) > 0 {
				return i
			}
		}
		return -1
	}
	if ll.slots < len(ll.all) {
		ll.slots, ll.indexed = 2*len(ll.all), 0
		ll.free = cluster.NewFreeCapacity(ll.slots, ll.dims)
	}
	for ; ll.indexed < len(ll.all); ll.indexed++ {
		l := ll.all[ll.indexed]
		l.index = ll.indexed
		ll.free.Set(l.index, &l.free)
	}
	return ll.free.NextFitting(i, len(ll.all), &g.shape.Requests, g.shape.Dims)
}

// offerWholeNodes makes the capacity of the planned offerings free that launches do not use: with
// minValues, only what enough offerings have was free.
func (ll *launchList) offerWholeNodes() {
	for _, l := range ll.all {
		if l.pool.hasMinValues() {
			l.free = l.pool.Allocatable[l.row].Sub(l.used)
		}
	}
	ll.forgetIndex()
}

// forgetIndex makes next index the launches again: they were changed otherwise than by addPods.
func (ll *launchList) forgetIndex() { ll.free, ll.slots, ll.indexed = nil, 0, 0 }

// holdFirst reports whether pods of the group are on some launch without pods that the counter counts
// and that need not join others.
func (ll *launchList) holdFirst(g *podGroup, counter int) bool {
	return slices.ContainsFunc(ll.all, func(l *launch) bool {
		return slices.Contains(l.groups, g) && !slices.ContainsFunc(l.groups, func(o *podGroup) bool {
			return !o.follows() && slices.Contains(o.nodeRules.increments, counter)
		})
	})
}

// launch launches the candidate so many times, or as often as enough values are left for minValues. It
// returns how often.
func (ll *launchList) launch(cand *candidate, copies int, minValues *minValuesChecker) int {
	pods, counted, limited := 0, 0, 0
	for _, p := range cand.content {
		rules := &p.allotment.group.nodeRules
		pods, counted, limited = pods+p.n, counted+len(rules.increments), limited+len(rules.maxCounts)
	}
	var groups []*podGroup // copies share the slice
	for n := range copies {
		l := &launch{pool: cand.pool, row: cand.row, free: cand.room, requirements: cand.requirements, groups: groups, content: make([]portion, 0, len(cand.content)), requiredValues: cand.requiredValues}
		if !minValues.reserveLaunch(l, &cand.used) {
			return n
		}
		l.counts, l.residents.mostOf = twoNumbersByID(counted, limited)
		if len(cand.content) > 1 {
			l.pods = make([]cluster.PodRef, 0, pods)
		}
		for _, p := range cand.content {
			ll.addPods(l, p.allotment, p.n)
		}
		groups = slices.Clip(l.groups)
		ll.all = append(ll.all, l)
	}
	return copies
}

// addPods puts n pods of the allotment on the launch.
func (ll *launchList) addPods(l *launch, a *allotment, n int) {
	for _, c := range a.group.nodeRules.increments {
		ll.counters.all[c].sum += n
	}
	if a.cell != nil {
		takeDomains(a.group.domainRules, func(r *domainRule) int { return a.cell.Values[r.keyIndex] })
	}
	a.placed += n
	a.group.allotted -= n
	l.pool.addPodCounts(a.group, n)
	ll.placements.record(placement{group: a.group, launch: l, count: n})
	l.addPods(a, a.group.take(n))
	if l.index < ll.indexed && ll.all[l.index] == l {
		ll.free.Set(l.index, &l.free)
	}
}

// addPods adds the pods.
func (l *launch) addPods(a *allotment, pods []cluster.PodRef) {
	n := len(pods)
	for _, d := range a.group.shape.Dims {
		l.free[d] -= int64(n) * a.group.shape.Requests[d]
		l.used[d] += int64(n) * a.group.shape.Requests[d]
	}
	for _, m := range a.group.nodeRules.mounts {
		if l.mounts[m] {
			continue
		}
		if l.mounts == nil {
			l.mounts = map[cluster.Mount]bool{}
		}
		l.mounts[m] = true
		l.free[m.Dim]--
		l.used[m.Dim]++
	}
	l.residents.add(&a.group.nodeRules)
	l.counts.addEach(a.group.nodeRules.increments, n)
	if !slices.Contains(l.groups, a.group) {
		l.groups = append(l.groups, a.group)
	}
	l.content = append(l.content, portion{a, n})
	if l.pods == nil {
		l.pods = pods[:len(pods):len(pods)]
		return
	}
	l.pods = append(l.pods, pods...)
}

// fittingOf is how many of n pods of the group fit into the room.
func (g *podGroup) fittingOf(n int, room *quantity.Vector) int {
	if n != 1 {
		return min(n, g.countFitting(room))
	}
	for _, d := range g.shape.Dims {
		if room[d] < g.shape.Requests[d] {
			return 0
		}
	}
	return 1
}

// countFitting is Vector.CountFitting for only the resources that the group asks for.
func (g *podGroup) countFitting(room *quantity.Vector) int {
	most := int64(math.MaxInt32)
	for _, d := range g.shape.Dims {
		if room[d] < g.shape.Requests[d] {
			return 0
		}
		most = min(most, room[d]/g.shape.Requests[d])
	}
	return int(max(0, most))
}
