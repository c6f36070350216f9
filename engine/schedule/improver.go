// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
)

// These bound what improve examines: nodes that are filled least well, other nodes that may
// take their pods, partners to be merged with, and offerings for the two.
const (
	maxExamined       = 256
	maxReceivers      = 256
	maxMergePartners  = 8
	maxMergeOfferings = 4
	// With at most fewLaunches launches, well filled nodes are examined, too: where there are
	// few nodes, examining those of a zone is quick, and a half-empty node is a large part of
	// the price.
	fewLaunches = 32
	wellFilled  = 0.8 // a node filled that much is well filled
	// maxImproveSteps bounds improve where nodes have many kinds of pods, each with many
	// rules. A step checks whether pods fit on a node, or whether one kind of pods there
	// tolerates them on the node. Plans for 20,000 pods take 50,000 steps at most, so for them
	// the bound has no effect.
	maxImproveSteps = 1 << 20
)

// improveProgress is how far improve got: the steps that it took, and the launches that it did not
// examine because it reached its bounds.
type improveProgress struct{ steps, unexamined int }

// improver looks for launches that the plan can do without.
type improver struct {
	progress      improveProgress
	launches      *launchList
	limits        *limits
	quota         *quota
	counters      *counters
	topology      *topology
	minValues     *minValuesChecker
	requirements  *requirementSets
	compatibility *compatibility
	offerings     *offeringChooser
	maxSteps      int
	prices        map[*launch]offering.Price // see price
	dropped       map[*launch]bool
	divided       bool       // some launches that are not dropped have other pods
	rows, merged  bitset.Set // scratch: see priceOf, mergePair and cheapestWith
}

func newImprover(s *solver) *improver {
	return &improver{launches: &s.launches, limits: &s.limits, quota: &s.quota, counters: &s.counters, topology: &s.topology, minValues: &s.minValues,
		requirements: &s.requirements, compatibility: &s.compatibility, offerings: &s.offerings, maxSteps: s.searches.budgets[Improvement] - s.searches.improveSteps,
		prices: map[*launch]offering.Price{}, dropped: map[*launch]bool{}}
}

// outOfSteps reports whether no step is left.
func (im *improver) outOfSteps() bool { return im.progress.steps >= im.maxSteps }

// improve drops launches whose pods fit on others, and replaces two launches by one or two that are
// cheaper. A pod never leaves its cell, and the rules of the pods on its new node hold, so no
// count that others rely on changes. The work is bounded: only the launches that are filled least
// well are examined, and only for a number of steps. Launches that are not examined are counted.
func (s *solver) improve() {
	im := newImprover(s)
	examined := im.listExamined()
	defer func() { s.searches.cut(Improvement, im.progress.unexamined) }()
	if len(s.launches.all) < 2 || len(examined) == 0 {
		return
	}
	s.launches.forgetIndex()
	im.dropLaunches(examined)
	im.merge(examined, im.listWithFollowers())
	if s.searches.budgets[Policies] > 0 { // not for drafts: a pass makes many
		im.divide(examined)
	}
	s.searches.improveSteps += im.progress.steps
	if len(im.dropped) == 0 && !im.divided {
		return
	}
	s.launches.drop(im.dropped, &s.pools)
}

// listExamined lists launches with free capacity, or all launches if there are few, the emptiest
// first.
func (im *improver) listExamined() []*launch {
	type filled struct {
		l    *launch
		part float64
	}
	var all []filled
	for _, l := range im.launches.all {
		if part := l.filled(); (part < wellFilled || len(im.launches.all) <= fewLaunches) && l.movable() {
			all = append(all, filled{l, part})
		}
	}
	slices.SortStableFunc(all, func(a, b filled) int { return cmp.Compare(a.part, b.part) })
	var out []*launch
	for _, f := range all[:min(len(all), maxExamined)] {
		out = append(out, f.l)
	}
	im.progress.unexamined = len(all) - len(out)
	return out
}

// listWithFollowers lists launches with pods that had to join others there. Those stay together, but may
// all move to a larger node.
func (im *improver) listWithFollowers() []*launch {
	var out []*launch
	for _, l := range im.launches.all {
		if len(out) < maxExamined && l.hasFollowers() && !l.hasVirtualPods() {
			out = append(out, l)
		}
	}
	return out
}

// filled is the largest fraction of any resource that pods use of the node.
func (l *launch) filled() float64 {
	most := 0.0
	for d, n := range l.used {
		if n > 0 {
			most = max(most, float64(n)/float64(n+max(0, l.free[d])))
		}
	}
	return most
}

// movable reports whether the pods may move to other nodes, each to another: those that joined
// other pods on the node may not, and virtual pods may not.
func (l *launch) movable() bool { return !l.hasFollowers() && !l.hasVirtualPods() }

// hasFollowers reports whether some of the pods joined others on the node, and must stay with them.
func (l *launch) hasFollowers() bool { return slices.ContainsFunc(l.groups, (*podGroup).follows) }

func (l *launch) hasVirtualPods() bool {
	return slices.ContainsFunc(l.groups, func(g *podGroup) bool { return g.class.Virtual })
}

// dropLaunches moves the pods of launches into the free capacity of others. Others of lower weight take
// them as they are: that a NodePool goes first decides what is launched, not what is filled.
func (im *improver) dropLaunches(examined []*launch) {
	receivers := slices.Clone(im.launches.all)
	slices.SortStableFunc(receivers, func(a, b *launch) int { return cmp.Compare(b.free[quantity.CPU], a.free[quantity.CPU]) })
	receivers = receivers[:min(len(receivers), maxReceivers)]
	for _, l := range examined {
		if im.outOfSteps() {
			return
		}
		lighter := func(t *launch) bool { return t.pool.Pool.Weight < l.pool.Pool.Weight }
		trials := im.moveAllPods(l, receivers, lighter)
		if trials == nil && slices.ContainsFunc(receivers, lighter) {
			trials = im.moveAllPods(l, receivers, func(*launch) bool { return false })
		}
		if trials != nil && im.cost(trials) < im.price(l) && !im.someCostMore(trials, lighter) {
			im.remove(l)
			im.apply(trials)
		}
	}
}

// someCostMore reports whether some of those launches cost more as their trial.
func (im *improver) someCostMore(trials map[*launch]*launch, those func(*launch) bool) bool {
	for t, trial := range trials {
		if those(t) && im.priceOf(trial) > im.price(t) {
			return true
		}
	}
	return false
}

// moveAllPods finds capacity for all pods of a launch on others that are not excluded; nil when there is not
// enough.
func (im *improver) moveAllPods(l *launch, receivers []*launch, excluded func(*launch) bool) map[*launch]*launch {
	trials := map[*launch]*launch{}
	at := 0
	for _, p := range l.content {
		pods := l.pods[at : at+p.n]
		at += p.n
		for _, t := range receivers {
			if len(pods) == 0 || im.outOfSteps() {
				break
			}
			if t == l || im.dropped[t] || excluded(t) {
				continue
			}
			trial := trials[t]
			if trial == nil {
				if im.roomFor(t, p.allotment) == 0 {
					continue
				}
				trial = t.clone()
			}
			if n := im.move(trial, p.allotment, pods); n > 0 {
				trials[t], pods = trial, pods[n:]
			}
		}
		if len(pods) > 0 {
			return nil
		}
	}
	return trials
}

// move puts as many of the pods on the node as it takes, and returns how many.
func (im *improver) move(to *launch, a *allotment, pods []cluster.PodRef) int {
	n := min(len(pods), im.roomFor(to, a))
	if n == 0 {
		return 0
	}
	next, ok := im.requirements.join(to.requirements, to.pool, to.row, im.compatibility.compatible(to.pool, a), a)
	if !ok {
		return 0
	}
	if n = to.addableWithMinValues(im.minValues, next, a.group, n); n == 0 {
		return 0
	}
	to.requirements = next
	to.addPods(a, pods[:n])
	return n
}

// roomFor is how many pods of the allotment the node takes, by its capacity and by the rules of
// its pods.
func (im *improver) roomFor(on *launch, a *allotment) int {
	im.progress.steps++
	n := on.roomFor(im.counters, a.group)
	if n == 0 || !on.residents.mayLimit(&a.group.nodeRules, n, on.counts.at) {
		return n
	}
	im.progress.steps += len(on.groups)
	return min(n, on.maxPodsInAnyBindOrder(a))
}

// maxPodsInAnyBindOrder is how many pods of the allotment may be with the pods on the node,
// whichever are bound first. New pods that must be bound later than pods elsewhere must not also
// have to be bound earlier than these.
func (l *launch) maxPodsInAnyBindOrder(a *allotment) int {
	n := math.MaxInt32
	for _, g := range l.groups {
		n = min(n, g.nodeRules.maxPodsInAnyBindOrder(&a.group.nodeRules, l.counts.at))
	}
	return n
}

func (l *launch) clone() *launch {
	out := *l
	out.counts, out.mounts, out.residents = slices.Clone(l.counts), maps.Clone(l.mounts), l.residents.clone()
	out.pods, out.content, out.groups = slices.Clip(l.pods), slices.Clip(l.content), slices.Clip(l.groups)
	return &out
}

// cost is by how much the price of the nodes rises when the trial launches replace them.
func (im *improver) cost(trials map[*launch]*launch) offering.Price {
	var more offering.Price
	for t, trial := range trials {
		more += im.priceOf(trial) - im.price(t)
	}
	return more
}

// apply replaces launches by the trial launches.
func (im *improver) apply(trials map[*launch]*launch) {
	for t, trial := range trials {
		*t = *trial
		delete(im.prices, t)
	}
}

// price is what the node costs as its first offering; it is cached.
func (im *improver) price(l *launch) offering.Price {
	p, ok := im.prices[l]
	if !ok {
		p = im.priceOf(l)
		im.prices[l] = p
	}
	return p
}

// priceOf is the price of the cheapest offering that may be chosen for the node's pods.
func (im *improver) priceOf(l *launch) offering.Price {
	pool := l.pool
	im.rows.Copy(im.offerings.choosable(l))
	rows := im.rows
	pool.DropNotFitting(rows, &l.used)
	price := pool.Catalog.Offerings[l.row].Price
	for row := range rows.All() {
		if r := &pool.Catalog.Offerings[row]; r.Price >= price {
			break
		} else if im.quota.covers(r, pool.Catalog.Offerings[l.row].QuotaUses) {
			return r.Price
		}
	}
	return price
}

// remove drops a launch and releases the limits and quota that were reserved for it.
func (im *improver) remove(l *launch) {
	im.dropped[l] = true
	im.limits.release(l)
}

// merge replaces two launches by one where that is cheaper; one of the two may have followers.
func (im *improver) merge(examined, withFollowers []*launch) {
	for i, a := range examined {
		if !im.mergeWith(a, examined[i+1:]) || !im.mergeWith(a, withFollowers) {
			im.countUnexamined(examined[i:])
			return
		}
	}
}

// mergeWith looks for a launch to merge a with. It reports false when the steps are spent
// before it is done.
func (im *improver) mergeWith(a *launch, partners []*launch) bool {
	tried := 0
	for _, b := range partners {
		if im.outOfSteps() || im.dropped[a] || tried == maxMergePartners {
			break
		}
		if im.dropped[b] || a.pool != b.pool {
			continue
		}
		tried++
		if b.hasFollowers() {
			im.mergePair(b, a)
		} else {
			im.mergePair(a, b)
		}
	}
	return !im.outOfSteps()
}

// countUnexamined counts launches that are not examined, or not completely, because the steps are
// spent.
func (im *improver) countUnexamined(examined []*launch) {
	for _, l := range examined {
		if !im.dropped[l] {
			im.progress.unexamined++
		}
	}
}

// mergePair replaces two launches by one of the cheapest offerings that hold the pods of both. Only a may
// have followers.
func (im *improver) mergePair(a, b *launch) {
	pool := a.pool
	if im.conflict(a, b) {
		return
	}
	im.merged.Copy(a.requirements.rows)
	rows := im.merged
	rows.Keep(b.requirements.rows)
	rows.Keep(pool.available())
	rows.Keep(im.topology.inCountedDomains(pool))
	if a.isForOwed() || b.isForOwed() {
		rows.DropAll(pool.tooSmall)
	}
	used := a.used.Add(b.used)
	for _, l := range []*launch{a, b} { // they may share these volumes
		for mount := range l.mounts {
			used[mount.Dim]--
		}
	}
	pool.DropNotFitting(rows, &used)
	before := im.price(a) + im.price(b)
	tried := 0
	for row := range rows.All() {
		if tried++; pool.Catalog.Offerings[row].Price >= before || tried > maxMergeOfferings || im.outOfSteps() {
			return
		}
		if one := im.combine(pool, row, a, b); one != nil && im.replace(a, b, one, before) {
			return
		}
	}
}

// conflict reports whether pods of b may not be on a node with those of a, however large it is.
func (im *improver) conflict(a, b *launch) bool {
	return slices.ContainsFunc(b.content, func(p portion) bool {
		im.progress.steps += 1 + len(a.groups)
		rules := &p.allotment.group.nodeRules
		return a.residents.keepOff(rules) || rules.roomFor(im.counters, a.counts.at) < p.n ||
			a.residents.mayLimit(rules, p.n, a.counts.at) && a.maxPodsInAnyBindOrder(p.allotment) < p.n
	})
}

// combine is a node of the offering with the pods of both; nil when it cannot hold them.
func (im *improver) combine(pool *poolState, row int, a, b *launch) *launch {
	if !within(&a.used, &pool.Allocatable[row]) { // mergePair leaves volumes out
		return nil
	}
	one := a.clone()
	one.row, one.free, one.reservedCapacity = row, pool.Allocatable[row].Sub(a.used), nil
	one.requiredValues = maxOfEach(a.requiredValues, b.requiredValues)
	at := 0
	for _, p := range b.content {
		if im.move(one, p.allotment, b.pods[at:at+p.n]) < p.n {
			return nil
		}
		at += p.n
	}
	return one
}

// emptyNode is a node of the offering for pods of both.
func (im *improver) emptyNode(pool *poolState, row int, a, b *launch) *launch {
	return &launch{pool: pool, row: row, free: pool.Allocatable[row], requirements: pool.base, requiredValues: maxOfEach(a.requiredValues, b.requiredValues)}
}

// replace launches one for a and b when limits and quota allow it and it is cheaper.
func (im *improver) replace(a, b, one *launch, before offering.Price) bool {
	im.limits.release(a)
	im.limits.release(b)
	if im.priceOf(one) >= before || !im.reserve(one) {
		im.limits.reserve(a)
		im.limits.reserve(b)
		return false
	}
	*a = *one
	im.dropped[b] = true
	delete(im.prices, a)
	return true
}

// drop drops the launches in gone, and counts the pods of the others again, by pool and by
// placement.
func (ll *launchList) drop(gone map[*launch]bool, pools *poolList) {
	ll.someDropped = true
	ll.all = slices.DeleteFunc(ll.all, func(l *launch) bool { return gone[l] })
	ll.placements.all = slices.DeleteFunc(ll.placements.all, func(at placement) bool { return at.launch != nil })
	for _, pool := range pools.all {
		clear(pool.pods)
		clear(pool.limitedPods)
	}
	for _, l := range ll.all {
		for _, p := range l.content {
			l.pool.addPodCounts(p.allotment.group, p.n)
			ll.placements.record(placement{group: p.allotment.group, launch: l, count: p.n})
		}
	}
}
