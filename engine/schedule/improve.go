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
	mostImproved = 256
	mostTakers   = 256
	mostPartners = 8
	mostRows     = 4
	// With at most mostMachines launches, well filled nodes are examined, too: where there are
	// few nodes, examining those of a zone is quick, and a half-empty node is a large part of
	// the price.
	mostMachines = 32
	looseShare   = 0.8 // a node filled that much is well filled
	// mostSteps bounds improve where nodes have many kinds of pods, each with many rules. A
	// step checks whether pods fit on a node, or whether one kind of pods there tolerates
	// them on the node. Plans for 20,000 pods take 50,000 steps at most, so for them the
	// bound has no effect.
	mostSteps = 1 << 20
)

// load is pods of one allotment on one node.
type load struct {
	allotment *allotment
	n         int
}

// improvement is how far improve got: the steps that it took, and the nodes that it did not
// examine because it reached its bounds.
type improvement struct{ steps, unexamined int }

// improver looks for nodes that a plan can do without.
type improver struct {
	improvement   improvement
	launches      *launchList
	limits        *limits
	quota         *quota
	counters      *counters
	topology      *topology
	minValues     *minValuesChecker
	requirements  *requirementSets
	compatibility *compatibility
	choice        *offeringChooser
	most          int                        // steps
	prices        map[*launch]offering.Price // see price
	gone          map[*launch]bool
	rows          bitset.Set // scratch: see priceOf
}

// spent reports whether no step is left.
func (x *improver) spent() bool { return x.improvement.steps >= x.most }

// improve drops nodes whose pods fit on others, and replaces two nodes by one cheaper node. A
// pod never leaves its cell, and the rules of the pods on its new node hold, so no count that
// others rely on changes. The work is bounded: only the nodes that are filled least well are
// examined, and only for a number of steps. Nodes that are not examined are counted.
func (s *solver) improve() {
	x := &improver{launches: &s.launches, limits: &s.limits, quota: &s.quota, counters: &s.counters, topology: &s.topology, minValues: &s.minValues,
		requirements: &s.requirements, compatibility: &s.compatibility, choice: &s.choice, most: s.search.steps,
		prices: map[*launch]offering.Price{}, gone: map[*launch]bool{}}
	loose := x.loose()
	s.improved = x.improvement
	if len(s.launches.all) < 2 || len(loose) == 0 {
		return
	}
	x.drop(loose)
	x.merge(loose)
	s.improved = x.improvement
	if len(x.gone) == 0 {
		return
	}
	s.launches.keep(x.gone, &s.pools)
}

// loose lists nodes with free capacity, or all nodes if there are few, the emptiest first.
func (x *improver) loose() []*launch {
	type filled struct {
		l    *launch
		part float64
	}
	var all []filled
	for _, l := range x.launches.all {
		if part := l.filled(); (part < looseShare || len(x.launches.all) <= mostMachines) && l.movable() {
			all = append(all, filled{l, part})
		}
	}
	slices.SortStableFunc(all, func(a, b filled) int { return cmp.Compare(a.part, b.part) })
	var out []*launch
	for _, f := range all[:min(len(all), mostImproved)] {
		out = append(out, f.l)
	}
	x.improvement.unexamined = len(all) - len(out)
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

// movable reports whether the pods may move to another node: those that joined other pods on
// the node may not, and virtual pods may not.
func (l *launch) movable() bool {
	return !slices.ContainsFunc(l.contents, func(o load) bool {
		return len(o.allotment.group.nodeRules.needs) > 0 || o.allotment.group.class.Virtual
	})
}

// drop empties nodes into the free capacity of others.
func (x *improver) drop(loose []*launch) {
	takers := slices.Clone(x.launches.all)
	slices.SortStableFunc(takers, func(a, b *launch) int { return cmp.Compare(b.free[quantity.CPU], a.free[quantity.CPU]) })
	takers = takers[:min(len(takers), mostTakers)]
	for _, l := range loose {
		if x.spent() {
			return
		}
		if trials := x.without(l, takers); trials != nil && x.cost(trials) < x.price(l) {
			x.remove(l)
			x.commit(trials)
		}
	}
}

// without finds capacity for all pods of a node on others; nil when there is not enough.
func (x *improver) without(l *launch, takers []*launch) map[*launch]*launch {
	trials := map[*launch]*launch{}
	at := 0
	for _, o := range l.contents {
		pods := l.pods[at : at+o.n]
		at += o.n
		for _, t := range takers {
			if len(pods) == 0 || x.spent() {
				break
			}
			if t == l || x.gone[t] || t.pool.Pool.Weight < l.pool.Pool.Weight {
				continue
			}
			trial := trials[t]
			if trial == nil {
				if x.room(t, o.allotment) == 0 {
					continue
				}
				trial = t.clone()
			}
			if n := x.move(trial, o.allotment, pods); n > 0 {
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
func (x *improver) move(to *launch, a *allotment, pods []cluster.PodRef) int {
	n := min(len(pods), x.room(to, a))
	if n == 0 {
		return 0
	}
	next, ok := x.requirements.join(to.requirements, to.pool, to.row, x.compatibility.compatible(to.pool, a), a)
	if !ok {
		return 0
	}
	if n = to.addableWithMinValues(x.minValues, next, a.group, n); n == 0 {
		return 0
	}
	to.requirements = next
	to.hold(a, pods[:n])
	return n
}

// room is how many pods of the allotment the node takes, by its capacity and by the rules of
// its pods.
func (x *improver) room(on *launch, a *allotment) int {
	x.improvement.steps++
	n := on.takes(x.counters, a.group)
	if n == 0 {
		return 0
	}
	x.improvement.steps += len(on.groups)
	return min(n, on.stands(a))
}

// stands is how many pods of the allotment may be with the pods on the node, whichever are
// bound first. New pods that must be bound later than pods elsewhere must not also have to be
// bound earlier than these.
func (l *launch) stands(a *allotment) int {
	n := math.MaxInt32
	for _, g := range l.groups {
		n = min(n, g.nodeRules.beside(&a.group.nodeRules, func(c int) int { return l.counts[c] }))
	}
	return n
}

func (l *launch) clone() *launch {
	out := *l
	out.counts, out.mounts, out.residents = maps.Clone(l.counts), maps.Clone(l.mounts), l.residents.clone()
	out.pods, out.contents, out.groups = slices.Clip(l.pods), slices.Clip(l.contents), slices.Clip(l.groups)
	return &out
}

// cost is by how much the price of the nodes rises when the trial launches replace them.
func (x *improver) cost(trials map[*launch]*launch) offering.Price {
	var more offering.Price
	for t, trial := range trials {
		more += x.priceOf(trial) - x.price(t)
	}
	return more
}

func (x *improver) commit(trials map[*launch]*launch) {
	for t, trial := range trials {
		*t = *trial
		delete(x.prices, t)
	}
}

// price is what the node costs as its first offering; it is cached.
func (x *improver) price(l *launch) offering.Price {
	p, ok := x.prices[l]
	if !ok {
		p = x.priceOf(l)
		x.prices[l] = p
	}
	return p
}

// priceOf is the price of the cheapest offering that may be chosen for the node's pods.
func (x *improver) priceOf(l *launch) offering.Price {
	pool := l.pool
	x.rows.Copy(x.choice.choosable(l))
	rows := x.rows
	pool.DropWithoutRoom(rows, &l.used)
	price := pool.Catalog.Offerings[l.row].Price
	for row := range rows.All() {
		if r := &pool.Catalog.Offerings[row]; r.Price >= price {
			break
		} else if x.quota.covers(r, pool.Catalog.Offerings[l.row].QuotaUses) {
			return r.Price
		}
	}
	return price
}

// remove drops a launch and releases the limits and quota that were reserved for it.
func (x *improver) remove(l *launch) {
	x.gone[l] = true
	x.limits.release(l)
}

// merge replaces two nodes by one where that is cheaper.
func (x *improver) merge(loose []*launch) {
	for i, a := range loose {
		if !x.mergeWith(a, loose[i+1:]) {
			x.leave(loose[i:])
			return
		}
	}
}

// mergeWith looks for a partner for a. It reports false when the steps are spent before it is
// done.
func (x *improver) mergeWith(a *launch, partners []*launch) bool {
	tried := 0
	for _, b := range partners {
		if x.spent() || x.gone[a] || tried == mostPartners {
			break
		}
		if x.gone[b] || a.pool != b.pool {
			continue
		}
		tried++
		x.mergeTwo(a, b)
	}
	return !x.spent()
}

// leave counts nodes that are not examined, or not completely, because the steps are spent.
func (x *improver) leave(loose []*launch) {
	for _, l := range loose {
		if !x.gone[l] {
			x.improvement.unexamined++
		}
	}
}

func (x *improver) mergeTwo(a, b *launch) {
	pool := a.pool
	rows := a.requirements.rows.And(b.requirements.rows).And(pool.available()).And(x.topology.inCountedDomains(pool))
	used := a.used.Add(b.used)
	for _, l := range []*launch{a, b} { // they may share these volumes
		for mount := range l.mounts {
			used[mount.Dim]--
		}
	}
	pool.DropWithoutRoom(rows, &used)
	before := x.price(a) + x.price(b)
	if x.clash(a, b) {
		return
	}
	tried := 0
	for row := range rows.All() {
		if tried++; pool.Catalog.Offerings[row].Price >= before || tried > mostRows || x.spent() {
			return
		}
		if one := x.together(pool, row, a, b); one != nil && x.replace(a, b, one, before) {
			return
		}
	}
}

// clash reports whether pods of b may not be on a node with those of a, however large it is.
func (x *improver) clash(a, b *launch) bool {
	count := func(c int) int { return a.counts[c] }
	return slices.ContainsFunc(b.contents, func(o load) bool {
		x.improvement.steps += 1 + len(a.groups)
		l := &o.allotment.group.nodeRules
		return a.residents.bars(l) || l.room(x.counters, count) < o.n || a.stands(o.allotment) < o.n
	})
}

// together is a node of the offering with the pods of both; nil when it cannot hold them.
func (x *improver) together(pool *poolState, row int, a, b *launch) *launch {
	one := &launch{pool: pool, row: row, free: pool.Allocatable[row], requirements: pool.base, requiredValues: maxOfEach(a.requiredValues, b.requiredValues)}
	for _, l := range []*launch{a, b} {
		at := 0
		for _, o := range l.contents {
			if x.move(one, o.allotment, l.pods[at:at+o.n]) < o.n {
				return nil
			}
			at += o.n
		}
	}
	return one
}

// replace launches one for a and b when limits and quota allow it and it is cheaper.
func (x *improver) replace(a, b, one *launch, before offering.Price) bool {
	x.limits.release(a)
	x.limits.release(b)
	if x.limits.affordable(one.pool, one.row) == 0 || x.priceOf(one) >= before || !x.minValues.reserve(one, &one.used) {
		x.limits.reserve(a)
		x.limits.reserve(b)
		return false
	}
	*a = *one
	x.gone[b] = true
	delete(x.prices, a)
	return true
}

// keep drops the launches in gone, and counts the pods of the others again, by pool and by
// placement.
func (t *launchList) keep(gone map[*launch]bool, pools *poolList) {
	t.returned = true
	t.all = slices.DeleteFunc(t.all, func(l *launch) bool { return gone[l] })
	t.placements.all = slices.DeleteFunc(t.placements.all, func(at placement) bool { return at.launch != nil })
	for _, pool := range pools.all {
		clear(pool.pods)
		clear(pool.limitedPods)
	}
	for _, l := range t.all {
		for _, o := range l.contents {
			l.pool.countPods(o.allotment.group, o.n)
			t.placements.record(placement{group: o.allotment.group, launch: l, pods: o.n})
		}
	}
}
