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

// poolMinValues is what an attempt knows of a pool with minValues; nil for other pools.
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
	// countedDomains are the offerings that earlier rounds found to be in counted domains in
	// the end; nil for all.
	countedDomains bitset.Set
}

// minValuesChecker answers whether the launches of pools with minValues keep enough values of
// their labels, as far as limits, quota and domains leave them.
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

func (s *minValuesChecker) newPoolMinValues(pool *poolState) *poolMinValues {
	if len(pool.MinValues) == 0 {
		return nil
	}
	m := &poolMinValues{nodesLeft: -1}
	for _, v := range pool.MinValues {
		m.required = append(m.required, v.Min)
	}
	if loss := s.lost[pool.PoolCatalog]; loss != nil {
		m.nodesLeft, m.countedDomains = loss.nodesLeft, loss.countedDomains
	}
	m.launchable = func(row int) bool {
		return pool.withinLimits(row) && s.quota.covers(&pool.Catalog.Offerings[row], nil) &&
			(m.countedDomains == nil || m.countedDomains.Has(row)) &&
			(!s.topology.openNoDomain || s.topology.inCountedDomains(pool).Has(row))
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
func (s *minValuesChecker) countValues(pool *poolState, set constraint.Set, rows bitset.Set, required []int, may func(int) bool) *valueCount {
	c := &s.count
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
func (s *minValuesChecker) enough(pool *poolState, set constraint.Set, rows bitset.Set, required []int, may func(int) bool) bool {
	return slices.Equal(s.countValues(pool, set, rows, required, may).n, required)
}

// largeEnough returns the offerings that are available, meet the node requirements and have
// the capacity used. The set is valid until the next call.
func (s *minValuesChecker) largeEnough(pool *poolState, j *nodeRequirements, used *quantity.Vector) bitset.Set {
	if j.available == nil {
		j.available = j.rows.And(pool.Matching(j.set)).And(pool.available())
	}
	s.large.Copy(j.available)
	pool.DropWithoutRoom(s.large, used)
	return s.large
}

// addable is the largest number up to n of pods of the group that can be added to used so
// that keeps reports true for the sum.
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

// diverse is how many of n more pods the filling can take with the variety it needs. When
// minValues are relaxed, the filling needs the variety that the first pod leaves.
func (b *launcher) addableWithMinValues(cand *candidate, j *nodeRequirements, a *allotment, n int) int {
	f, pool := &b.filling, cand.pool
	used := f.capacity.Sub(f.room)
	attached := func(m cluster.Mount) bool { return f.mounts[m] }
	if len(f.allotments) == 0 {
		f.requiredValues = pool.minValues.required
		if b.minValues.relaxing {
			largestAddable(1, a.group, used, attached, func(sum *quantity.Vector) bool {
				f.requiredValues = slices.Clone(b.minValues.countValues(pool, j.set, b.minValues.largeEnough(pool, j, sum), pool.minValues.required, pool.minValues.launchable).n)
				return true
			})
		}
	}
	return largestAddable(n, a.group, used, attached, func(sum *quantity.Vector) bool { return b.minValues.leavesEnough(pool, j, sum, f.requiredValues) })
}

// keeps reports whether one more node with those requirements and that use could be launched
// with the variety needed.
func (s *minValuesChecker) leavesEnough(pool *poolState, j *nodeRequirements, used *quantity.Vector, least []int) bool {
	if s.relaxing {
		return s.enough(pool, j.set, s.largeEnough(pool, j, used), least, pool.minValues.launchable)
	}
	t := &j.minValuesTrials
	if t.reservations != s.limits.reservations || t.openNoDomain != s.topology.openNoDomain {
		*t = minValuesTrials{reservations: s.limits.reservations, openNoDomain: s.topology.openNoDomain, enough: t.enough[:0], tooFew: t.tooFew[:0]}
	}
	if slices.ContainsFunc(t.enough, func(v quantity.Vector) bool { return within(used, &v) }) {
		return true
	}
	if slices.ContainsFunc(t.tooFew, func(v quantity.Vector) bool { return within(&v, used) }) {
		return false
	}
	if s.enough(pool, j.set, s.largeEnough(pool, j, used), least, pool.minValues.launchable) {
		t.enough = append(t.enough[max(0, len(t.enough)-maxTrials):], *used)
		return true
	}
	t.tooFew = append(t.tooFew[max(0, len(t.tooFew)-maxTrials):], *used)
	return false
}

// trials are the uses that nodes with the same requirements can hold with the variety needed,
// and those they cannot. They are valid until something is launched.
type minValuesTrials struct {
	reservations   int
	openNoDomain   bool
	enough, tooFew []quantity.Vector
}

// mostTrials bounds how many are kept.
const maxTrials = 16

func within(a, b *quantity.Vector) bool {
	for d := range a {
		if a[d] > b[d] {
			return false
		}
	}
	return true
}

// diverse is how many of n more pods the launch can take, if its requirements become next,
// without listing less variety than it was planned with.
func (l *launch) addableWithMinValues(s *minValuesChecker, next *nodeRequirements, g *podGroup, n int) int {
	if !l.pool.hasMinValues() {
		return n
	}
	return largestAddable(n, g, l.used, func(m cluster.Mount) bool { return l.mounts[m] }, func(sum *quantity.Vector) bool {
		return s.enough(l.pool, next.set, s.largeEnough(l.pool, next, sum), l.requiredValues, func(row int) bool { return s.canBecome(l, row) })
	})
}

// assorted returns those of a partition's offerings that can be launched for one pod of the
// group with the variety needed.
func (s *minValuesChecker) launchableFor(pool *poolState, g *podGroup, values []int, at partition) bitset.Set {
	if !pool.hasMinValues() || s.mayRelax {
		return at.rows
	}
	here := (&cluster.Cell{Keys: g.domainKeys, Values: values}).Set().And(at.set)
	f := pool.Compatible(g.shape)
	var out bitset.Set
	for i, alt := range g.shape.Alternatives {
		out.Merge(s.alternativeWithEnough(pool, f, i, pool.Base.And(alt).And(here), at.rows))
	}
	return out
}

// suiting returns those of the offerings on which alternative i of the shape holds; nil when
// they have too little variety.
func (s *minValuesChecker) alternativeWithEnough(pool *poolState, f *cluster.Compatible, i int, set constraint.Set, rows bitset.Set) bitset.Set {
	own := f.Fitting[i].And(rows).And(pool.available())
	if pool.minValues.nodesLeft == 0 || !s.enough(pool, set, own, pool.minValues.required, pool.minValues.launchable) {
		return nil
	}
	return own
}

// compatibleWithMinValues is what the allotment can use of the pool, without the alternatives
// that leave too few values to one pod.
func (b *launcher) compatibleWithMinValues(pool *poolState, a *allotment) *cluster.Compatible {
	f := b.compatibility.compatible(pool, a)
	if !pool.hasMinValues() || b.minValues.relaxing {
		return f
	}
	out := &cluster.Compatible{Fitting: make([]bitset.Set, len(f.Fitting)), Admitted: f.Admitted, PortsTaken: f.PortsTaken}
	for i, alt := range a.group.shape.Alternatives {
		set := pool.Base.And(alt)
		if a.cell != nil {
			set = set.And(a.cell.set)
		}
		out.Fitting[i] = b.minValues.alternativeWithEnough(pool, f, i, set, f.Fitting[i])
		out.All.Merge(out.Fitting[i])
	}
	return out
}

// refit computes again what shape groups can use of pools with minValues, as limits and quota
// shrink.
func (b *launcher) refreshMinValues() {
	for i, pool := range b.pools {
		if !pool.hasMinValues() {
			continue
		}
		for _, l := range b.shapeGroups {
			if l.left > 0 {
				l.compatible[i] = b.compatibleWithMinValues(pool, l.allotments[0])
			}
		}
	}
}

// diluted reports whether purchases may have left candidates without the variety that they
// had when they were compared with others.
func (b *launcher) mayHaveLostValues() bool {
	return b.gatheredAt < b.launched && slices.ContainsFunc(b.pools, (*poolState).hasMinValues)
}

// ceiling is the most of each resource that a node for the group can hold with the variety
// needed; nil when no variety is needed.
func (b *launcher) largestWithMinValues(i int, g *candidateGroup) *quantity.Vector {
	pool := b.pools[i]
	if !pool.hasMinValues() || b.minValues.relaxing {
		return nil
	}
	var out, rows = quantity.Vector{}, bitset.Set(nil)
	for _, l := range g.shapeGroups {
		rows.Merge(l.compatible[i].All)
	}
	for d, n := range b.demand.total {
		if n == 0 {
			out[d] = quantity.Most
			continue
		}
		out[d], _ = pool.Most(quantity.Dim(d), func(much bitset.Set) bool {
			return b.minValues.enough(pool, pool.Base, rows.And(much), pool.minValues.required, pool.minValues.launchable)
		})
	}
	return &out
}

func minOf(a, b *quantity.Vector) *quantity.Vector {
	out := *a
	for d := range out {
		out[d] = min(out[d], b[d])
	}
	return &out
}

// buyFrom launches nodes for the allotments from one tier. Where the settings allow it, pods
// that cannot be placed with the variety that minValues ask for are placed with less, before
// the next tier is tried: heavier pools come first.
func (s *solver) launchFromPools(tier []*poolState, last bool, allotments []*allotment) {
	s.launchNodes(tier, last, allotments)
	if !s.w.Settings.RelaxMinValues || !slices.ContainsFunc(tier, (*poolState).hasMinValues) {
		return
	}
	s.minValues.relaxing = true
	s.launchNodes(tier, last, allotments)
	s.minValues.relaxing = false
}

// more is the larger of two numbers, label by label.
func maxOfEach(a, b []int) []int {
	out := slices.Clone(a)
	for i, n := range b {
		out[i] = max(out[i], n)
	}
	return out
}
