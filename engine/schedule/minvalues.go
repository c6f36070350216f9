// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"slices"
	"sort"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/quantity"
)

// poolMinValues is what a round knows of a pool with minValues; nil for other pools.
//
// Every launch of such a pool must list several values of some labels among its offerings. So
// a pod may join a node only while enough offerings are left that hold all of its pods, are
// available, and are within limits and quota. Which offering is the planned one does not
// matter for that: the capacity of an offering is used as far as enough other offerings have
// as much.
type poolMinValues struct {
	// required is how many values of each label with minValues a launch lists, unless minValues
	// are relaxed.
	required []int
	// launchable reports whether one more node of an offering could be launched now.
	launchable func(row int) bool
	// nodesLeft is how many more nodes may be launched, as earlier rounds launched more than
	// could keep enough values; negative means no limit.
	nodesLeft int
	// inCountedDomains are the offerings that earlier rounds found to be in counted domains in
	// the end; nil for all.
	inCountedDomains bitset.Set
}

// minValuesChecker answers whether the launches of pools with minValues keep enough values of
// their labels, as far as limits, quota and domains leave them. It also reserves the limits and
// quota of the launches of all pools, so that the values stay enough: see reserveLaunch.
type minValuesChecker struct {
	limits   *limits
	quota    *quota
	topology *topology
	lost     map[*cluster.PoolCatalog]*minValuesLoss // see learned
	mayRelax bool                                    // the settings allow launches with fewer values
	relaxing bool                                    // launches have fewer values now
	count    valueCount                              // scratch: see countValues
	large    bitset.Set                              // scratch: see largeEnough
}

// hasMinValues reports whether the pool's launches must list enough values of some labels.
func (pool *poolState) hasMinValues() bool { return pool.minValues != nil }

func (mc *minValuesChecker) newPoolMinValues(pool *poolState) *poolMinValues {
	if len(pool.MinValues) == 0 {
		return nil
	}
	m := &poolMinValues{nodesLeft: -1}
	for _, v := range pool.MinValues {
		m.required = append(m.required, v.Min)
	}
	if loss := mc.lost[pool.PoolCatalog]; loss != nil {
		m.nodesLeft, m.inCountedDomains = loss.nodesLeft, loss.inCountedDomains
	}
	m.launchable = func(row int) bool {
		return pool.withinLimits(row) && mc.quota.covers(&pool.Catalog.Offerings[row], nil) &&
			(m.inCountedDomains == nil || m.inCountedDomains.Has(row)) &&
			(!mc.topology.mustNotOpenDomains || mc.topology.inCountedDomains(pool).Has(row))
	}
	return m
}

// valueCount counts, for each label with minValues, the different values of some offerings.
type valueCount struct {
	seen []bitset.Set // the values, by label
	n    []int        // how many they are, up to the number required
}

// reset forgets all values of that many labels.
func (c *valueCount) reset(labels int) {
	c.n = append(c.n[:0], make([]int, labels)...)
	for len(c.seen) < labels {
		c.seen = append(c.seen, nil)
	}
	for i := range labels {
		clear(c.seen[i])
	}
}

// addValues adds the offering's values of a label to those seen, and returns how many are new.
// set is what the launch requires of its labels.
func addValues(seen *bitset.Set, v *cluster.MinValues, set constraint.Set, row int) int {
	n, values := 0, v.Values(row)
	for _, id := range values {
		if seen.Has(id) {
			continue
		}
		if len(values) > 1 {
			// One of several: the launch takes a value that all its pods admit.
			if q, asked := set.Get(v.Key); asked && !q.Admits(id) {
				continue
			}
		}
		seen.Put(id)
		n++
	}
	return n
}

// countValues counts the values of each label with minValues that a launch can have which may
// use rows and requires set. It counts up to the numbers required. Offerings for which may
// reports false are left out; nil admits all. The result is valid until the next call.
func (mc *minValuesChecker) countValues(pool *poolState, set constraint.Set, rows bitset.Set, required []int, may func(int) bool) *valueCount {
	c := &mc.count
	c.reset(len(required))
	missing := 0
	for _, n := range required {
		if n > 0 {
			missing++
		}
	}
	for row := range rows.All() {
		if missing == 0 {
			break
		}
		if may != nil && !may(row) {
			continue
		}
		for i := range pool.MinValues {
			if c.n[i] >= required[i] {
				continue
			}
			c.n[i] += addValues(&c.seen[i], &pool.MinValues[i], set, row)
			if c.n[i] >= required[i] {
				c.n[i] = required[i]
				missing--
			}
		}
	}
	return c
}

// enough reports whether the offerings leave at least that many values possible.
func (mc *minValuesChecker) enough(pool *poolState, set constraint.Set, rows bitset.Set, required []int, may func(int) bool) bool {
	return slices.Equal(mc.countValues(pool, set, rows, required, may).n, required)
}

// largeEnough returns the offerings that are available, meet the node requirements and have
// the capacity used. The set is valid until the next call.
func (mc *minValuesChecker) largeEnough(pool *poolState, reqs *nodeRequirements, used *quantity.Vector) bitset.Set {
	if reqs.available == nil {
		reqs.available = reqs.rows.And(pool.Matching(reqs.set())).And(pool.available())
	}
	mc.large.Copy(reqs.available)
	pool.DropNotFitting(mc.large, used)
	return mc.large
}

// largestAddable is the largest number up to n of pods of the group that can be added to used
// so that keeps reports true for the sum.
func largestAddable(n int, g *podGroup, used quantity.Vector, attached func(cluster.Mount) bool, keeps func(*quantity.Vector) bool) int {
	for _, m := range g.nodeRules.mounts {
		if !attached(m) {
			used[m.Dim]++
		}
	}
	with := func(n int) bool {
		sum := used
		for _, d := range g.shape.Dims {
			sum[d] += int64(n) * g.shape.Requests[d]
		}
		return keeps(&sum)
	}
	if n > 0 && with(n) {
		return n
	}
	return max(0, sort.Search(n, func(i int) bool { return !with(i + 1) }))
}

// addableWithMinValues is how many of n more pods the filling can take with the values it
// needs. When minValues are relaxed, the filling needs the values that the first pod leaves.
func (lr *launcher) addableWithMinValues(cand *candidate, reqs *nodeRequirements, a *allotment, n int) int {
	f, pool := lr.filling, cand.pool
	used := f.capacity.Sub(f.room)
	attached := func(m cluster.Mount) bool { return f.mounts[m] }
	if len(f.allotments) == 0 {
		f.requiredValues = pool.minValues.required
		if lr.minValues.relaxing {
			largestAddable(1, a.group, used, attached, func(sum *quantity.Vector) bool {
				f.requiredValues = slices.Clone(lr.minValues.countValues(pool, reqs.set(), lr.minValues.largeEnough(pool, reqs, sum), pool.minValues.required, pool.minValues.launchable).n)
				return true
			})
		}
	}
	return largestAddable(n, a.group, used, attached, func(sum *quantity.Vector) bool { return lr.minValues.leavesEnough(pool, reqs, sum, f.requiredValues) })
}

// leavesEnough reports whether one more node with those requirements and that use could be
// launched with enough values.
func (mc *minValuesChecker) leavesEnough(pool *poolState, reqs *nodeRequirements, used *quantity.Vector, required []int) bool {
	if mc.relaxing {
		return mc.enough(pool, reqs.set(), mc.largeEnough(pool, reqs, used), required, pool.minValues.launchable)
	}
	t := &reqs.minValuesTrials
	if t.reservations != mc.limits.reservations || t.mustNotOpenDomains != mc.topology.mustNotOpenDomains {
		*t = minValuesTrials{reservations: mc.limits.reservations, mustNotOpenDomains: mc.topology.mustNotOpenDomains, enough: t.enough[:0], tooFew: t.tooFew[:0]}
	}
	if slices.ContainsFunc(t.enough, func(v quantity.Vector) bool { return within(used, &v) }) {
		return true
	}
	if slices.ContainsFunc(t.tooFew, func(v quantity.Vector) bool { return within(&v, used) }) {
		return false
	}
	if mc.enough(pool, reqs.set(), mc.largeEnough(pool, reqs, used), required, pool.minValues.launchable) {
		t.enough = append(t.enough[max(0, len(t.enough)-maxTrials):], *used)
		return true
	}
	t.tooFew = append(t.tooFew[max(0, len(t.tooFew)-maxTrials):], *used)
	return false
}

// minValuesTrials are the uses that nodes with the same requirements can hold with enough
// values, and those they cannot. They are valid until something is launched.
type minValuesTrials struct {
	reservations       int
	mustNotOpenDomains bool
	enough, tooFew     []quantity.Vector
}

// maxTrials bounds how many are kept.
const maxTrials = 16

// within reports whether a is at most b, resource by resource.
func within(a, b *quantity.Vector) bool {
	for d := range a {
		if a[d] > b[d] {
			return false
		}
	}
	return true
}

// addableWithMinValues is how many of n more pods the launch can take, if its requirements become
// next, without listing fewer values than it was planned with. When minValues are relaxed, the
// launch takes all n.
func (l *launch) addableWithMinValues(mc *minValuesChecker, next *nodeRequirements, g *podGroup, n int) int {
	if !l.pool.hasMinValues() || mc.relaxing {
		return n
	}
	return largestAddable(n, g, l.used, func(m cluster.Mount) bool { return l.mounts[m] }, func(sum *quantity.Vector) bool {
		return mc.enough(l.pool, next.set(), mc.largeEnough(l.pool, next, sum), l.requiredValues, func(row int) bool { return mc.canBecome(l, row) })
	})
}

// lowerRequired makes the launch require the values that its pods leave, when minValues are
// relaxed.
func (mc *minValuesChecker) lowerRequired(l *launch) {
	if mc.relaxing && l.pool.hasMinValues() {
		large := mc.largeEnough(l.pool, l.requirements, &l.used)
		l.requiredValues = slices.Clone(mc.countValues(l.pool, l.requirements.set(), large, l.requiredValues, func(row int) bool { return mc.canBecome(l, row) }).n)
	}
}

// launchableFor returns those of a partition's offerings that can be launched for one pod of
// the group with enough values.
func (mc *minValuesChecker) launchableFor(pool *poolState, g *podGroup, values []int, at partition) bitset.Set {
	if !pool.hasMinValues() || mc.mayRelax {
		return at.rows
	}
	here := (&cluster.Cell{Keys: g.domainKeys, Values: values}).Set().And(at.set)
	f := pool.Compatible(g.shape)
	var out bitset.Set
	for i, alt := range g.shape.Alternatives {
		out.Merge(mc.alternativeWithEnough(pool, f, i, pool.NodeRequirements.And(alt).And(here), at.rows))
	}
	return out
}

// alternativeWithEnough returns those of the offerings on which alternative i of the shape
// holds; nil when they have too few values.
func (mc *minValuesChecker) alternativeWithEnough(pool *poolState, f *cluster.CompatibleOfferings, i int, set constraint.Set, rows bitset.Set) bitset.Set {
	own := f.Fitting[i].And(rows).And(pool.available())
	if pool.minValues.nodesLeft == 0 || !mc.enough(pool, set, own, pool.minValues.required, pool.minValues.launchable) {
		return nil
	}
	return own
}

// compatibleWithMinValues is what nodes can be launched of for the allotment, without the alternatives
// that leave too few values to one pod.
func (lr *launcher) compatibleWithMinValues(pool *poolState, a *allotment) *cluster.CompatibleOfferings {
	f := lr.compatibility.compatible(pool, a)
	if a.group.class.Owed > 0 && f.All.Intersects(pool.tooSmall) {
		f = f.Without(pool.tooSmall)
	}
	if !pool.hasMinValues() || lr.minValues.relaxing {
		return f
	}
	out := &cluster.CompatibleOfferings{Fitting: make([]bitset.Set, len(f.Fitting)), Admitted: f.Admitted, AnyPortTaken: f.AnyPortTaken}
	for i, alt := range a.group.shape.Alternatives {
		set := pool.NodeRequirements.And(alt)
		if a.cell != nil {
			set = set.And(a.cell.set)
		}
		out.Fitting[i] = lr.minValues.alternativeWithEnough(pool, f, i, set, pool.base.rows)
		out.All.Merge(out.Fitting[i])
	}
	return out
}

// refreshMinValues computes again what shape groups can use of pools with minValues, as limits
// and quota shrink.
func (lr *launcher) refreshMinValues() {
	for kind, pool := range lr.pools.firstPools() {
		if !pool.hasMinValues() {
			continue
		}
		for _, sg := range lr.shapeGroups {
			if sg.left > 0 {
				sg.compatible[kind] = lr.compatibleWithMinValues(pool, sg.allotments[0])
			}
		}
	}
}

// mayHaveLostValues reports whether launches may have left candidates without the values that
// they had when they were compared with others.
func (lr *launcher) mayHaveLostValues() bool {
	return lr.gatheredAt < lr.launchCalls && slices.ContainsFunc(lr.pools.all, (*poolState).hasMinValues)
}

// largestWithMinValues is the most of each resource that a node for the group can hold with
// enough values; nil without minValues.
func (lr *launcher) largestWithMinValues(i int, g *candidateGroup) *quantity.Vector {
	pool := lr.pools.all[i]
	if !pool.hasMinValues() || lr.minValues.relaxing {
		return nil
	}
	var out, rows = quantity.Vector{}, bitset.Set(nil)
	for _, sg := range g.shapeGroups {
		rows.Merge(sg.compatible[g.poolKind].All)
	}
	for d, n := range lr.demand.total {
		if n == 0 {
			out[d] = quantity.Most
			continue
		}
		out[d], _ = pool.LargestAmount(quantity.Dim(d), func(much bitset.Set) bool {
			return lr.minValues.enough(pool, pool.NodeRequirements, rows.And(much), pool.minValues.required, pool.minValues.launchable)
		})
	}
	return &out
}

// minOf is the smaller of two amounts, resource by resource.
func minOf(a, b *quantity.Vector) *quantity.Vector {
	out := *a
	for d := range out {
		out[d] = min(out[d], b[d])
	}
	return &out
}

// launchFromPools launches nodes for the allotments from pools of equal weight. Where the
// settings allow it, pods that cannot be placed with the values that minValues ask for are
// placed with fewer, before the next pools are tried: heavier pools come first.
func (s *solver) launchFromPools(pools []*poolState, last bool, allotments []*allotment) {
	s.launchNodes(pools, last, allotments)
	if !s.snapshot.Settings.RelaxMinValues || !slices.ContainsFunc(pools, (*poolState).hasMinValues) {
		return
	}
	s.minValues.relaxing = true
	s.launchNodes(pools, last, allotments)
	if slices.ContainsFunc(allotments, func(a *allotment) bool { return a.left() > 0 }) {
		s.launches.offerWholeNodes() // no more can be launched
		s.fillLaunches(allotments)
	}
	s.minValues.relaxing = false
}

// maxOfEach is the larger of two numbers, label by label.
func maxOfEach(a, b []int) []int {
	out := slices.Clone(a)
	for i, n := range b {
		out[i] = max(out[i], n)
	}
	return out
}
