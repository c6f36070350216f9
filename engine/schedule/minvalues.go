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

// minValuesState is additional state of a pool with minValues; nil for other pools.
//
// Every launch of such a pool must list several values of some labels among its offerings. So
// a pod may join a node only while enough offerings are left that hold all of its pods, are
// available, and are within limits and quota. Which offering is the planned one does not
// matter for that: the capacity of an offering is used as far as enough other offerings have
// as much.
type minValuesState struct {
	// least is how many values of each label with minValues a launch lists, unless minValues
	// are relaxed.
	least []int
	// may reports whether one more node of an offering could be launched now.
	may func(row int) bool
	// most is how many more nodes may be launched, as earlier rounds launched more than could
	// keep their variety; negative means no limit.
	most int
	// within are the offerings that earlier rounds found to be known in the end; nil for all.
	within bitset.Set
}

// variety answers whether the launches of pools with minValues keep enough values of their
// labels, as far as limits, quota and domains leave them.
type variety struct {
	limits   *limits
	quota    *quota
	topology *topology
	thin     map[*cluster.PoolCatalog]*dilution // see learned
	relax    bool                               // the settings allow launches with less variety
	relaxing bool                               // launches have less variety now
	kept     bitset.Set                         // scratch: see holding
	seen     []bitset.Set                       // scratch: see values
	had      []int                              // scratch: see values
}

// varied reports whether the pool's launches must keep some variety.
func (pool *poolState) varied() bool { return pool.minValues != nil }

func (s *variety) newMinValues(pool *poolState) *minValuesState {
	if len(pool.MinValues) == 0 {
		return nil
	}
	h := &minValuesState{most: -1}
	for _, v := range pool.MinValues {
		h.least = append(h.least, v.Min)
	}
	if t := s.thin[pool.PoolCatalog]; t != nil {
		h.most, h.within = t.most, t.known
	}
	h.may = func(row int) bool {
		return pool.withinLimits(row) && s.quota.covers(&pool.Catalog.Offerings[row], nil) && (h.within == nil || h.within.Has(row)) && (!s.topology.confined || s.topology.known(pool).Has(row))
	}
	return h
}

// values counts the values of each label with minValues that a launch can have which may use
// rows and requires set. It counts up to least. Offerings for which may reports false are
// left out; nil admits all. The result is valid until the next call.
func (s *variety) values(pool *poolState, set constraint.Set, rows bitset.Set, least []int, may func(int) bool) []int {
	s.had = append(s.had[:0], make([]int, len(least))...)
	for len(s.seen) < len(least) {
		s.seen = append(s.seen, nil)
	}
	short := 0
	for i, n := range least {
		clear(s.seen[i])
		if n > 0 {
			short++
		}
	}
	for row := range rows.All() {
		if short == 0 {
			break
		}
		if may != nil && !may(row) {
			continue
		}
		for i := range pool.MinValues {
			if s.had[i] >= least[i] {
				continue
			}
			s.had[i] += s.unseen(&pool.MinValues[i], set, row, &s.seen[i])
			if s.had[i] >= least[i] {
				s.had[i] = least[i]
				short--
			}
		}
	}
	return s.had
}

// unseen adds the offering's values of a label to those seen, and returns how many are new.
func (s *variety) unseen(v *cluster.MinValues, set constraint.Set, row int, seen *bitset.Set) int {
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

// enough reports whether the offerings leave at least that many values possible.
func (s *variety) enough(pool *poolState, set constraint.Set, rows bitset.Set, least []int, may func(int) bool) bool {
	return slices.Equal(s.values(pool, set, rows, least, may), least)
}

// holding returns the offerings that are available, meet the node requirements and have the
// capacity used. The set is valid until the next call.
func (s *variety) holding(pool *poolState, j *nodeRequirements, used *quantity.Vector) bitset.Set {
	if j.offered == nil {
		j.offered = j.rows.And(pool.Matching(j.set)).And(pool.onSale())
	}
	s.kept.Copy(j.offered)
	pool.DropWithoutRoom(s.kept, used)
	return s.kept
}

// addable is the largest number up to n of pods of the group that can be added to used so
// that keeps reports true for the sum.
func addable(n int, g *podGroup, used quantity.Vector, attached func(cluster.Mount) bool, keeps func(*quantity.Vector) bool) int {
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
func (b *buyer) diverse(cand *candidate, j *nodeRequirements, a *allotment, n int) int {
	f, pool := &b.scratch, cand.pool
	used := f.whole.Sub(f.room)
	attached := func(m cluster.Mount) bool { return f.mounts[m] }
	if len(f.order) == 0 {
		f.least = pool.minValues.least
		if b.variety.relaxing {
			addable(1, a.group, used, attached, func(sum *quantity.Vector) bool {
				f.least = slices.Clone(b.variety.values(pool, j.set, b.variety.holding(pool, j, sum), pool.minValues.least, pool.minValues.may))
				return true
			})
		}
	}
	return addable(n, a.group, used, attached, func(sum *quantity.Vector) bool { return b.variety.keeps(pool, j, sum, f.least) })
}

// keeps reports whether one more node with those requirements and that use could be launched
// with the variety needed.
func (s *variety) keeps(pool *poolState, j *nodeRequirements, used *quantity.Vector, least []int) bool {
	if s.relaxing {
		return s.enough(pool, j.set, s.holding(pool, j, used), least, pool.minValues.may)
	}
	t := &j.tried
	if t.orders != s.limits.changes || t.confined != s.topology.confined {
		*t = trials{orders: s.limits.changes, confined: s.topology.confined, good: t.good[:0], bad: t.bad[:0]}
	}
	if slices.ContainsFunc(t.good, func(v quantity.Vector) bool { return within(used, &v) }) {
		return true
	}
	if slices.ContainsFunc(t.bad, func(v quantity.Vector) bool { return within(&v, used) }) {
		return false
	}
	if s.enough(pool, j.set, s.holding(pool, j, used), least, pool.minValues.may) {
		t.good = append(t.good[max(0, len(t.good)-mostTrials):], *used)
		return true
	}
	t.bad = append(t.bad[max(0, len(t.bad)-mostTrials):], *used)
	return false
}

// trials are the uses that nodes with the same requirements can hold with the variety needed,
// and those they cannot. They are valid until something is launched.
type trials struct {
	orders    int
	confined  bool
	good, bad []quantity.Vector
}

// mostTrials bounds how many are kept.
const mostTrials = 16

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
func (l *launch) diverse(s *variety, next *nodeRequirements, g *podGroup, n int) int {
	if !l.pool.varied() {
		return n
	}
	return addable(n, g, l.used, func(m cluster.Mount) bool { return l.mounts[m] }, func(sum *quantity.Vector) bool {
		return s.enough(l.pool, next.set, s.holding(l.pool, next, sum), l.least, func(row int) bool { return s.exchangeable(l, row) })
	})
}

// assorted returns those of a partition's offerings that can be launched for one pod of the
// group with the variety needed.
func (s *variety) assorted(pool *poolState, g *podGroup, values []int, at partition) bitset.Set {
	if !pool.varied() || s.relax {
		return at.rows
	}
	here := (&cluster.Cell{Keys: g.domainKeys, Values: values}).Set().And(at.set)
	f := pool.Compatible(g.shape)
	var out bitset.Set
	for i, alt := range g.shape.Alternatives {
		out.Merge(s.suiting(pool, f, i, pool.Base.And(alt).And(here), at.rows))
	}
	return out
}

// suiting returns those of the offerings on which alternative i of the shape holds; nil when
// they have too little variety.
func (s *variety) suiting(pool *poolState, f *cluster.Compatible, i int, set constraint.Set, rows bitset.Set) bitset.Set {
	own := f.Fitting[i].And(rows).And(pool.onSale())
	if pool.minValues.most == 0 || !s.enough(pool, set, own, pool.minValues.least, pool.minValues.may) {
		return nil
	}
	return own
}

// offered is fit without alternatives that leave too little variety to one pod.
func (s *solver) offered(pool *poolState, a *allotment) *cluster.Compatible {
	f := s.compatibility.fit(pool, a)
	if !pool.varied() || s.variety.relaxing {
		return f
	}
	out := &cluster.Compatible{Fitting: make([]bitset.Set, len(f.Fitting)), Admitted: f.Admitted, PortsTaken: f.PortsTaken}
	for i, alt := range a.group.shape.Alternatives {
		set := pool.Base.And(alt)
		if a.cell != nil {
			set = set.And(a.cell.set)
		}
		out.Fitting[i] = s.variety.suiting(pool, f, i, set, f.Fitting[i])
		out.All.Merge(out.Fitting[i])
	}
	return out
}

// refit computes again what shape groups can use of pools with minValues, as limits and quota
// shrink.
func (b *buyer) refit() {
	for i, pool := range b.tier {
		if !pool.varied() {
			continue
		}
		for _, l := range b.shapeGroups {
			if l.left > 0 {
				l.fits[i] = b.offered(pool, l.allotments[0])
			}
		}
	}
}

// diluted reports whether purchases may have left candidates without the variety that they
// had when they were compared with others.
func (b *buyer) diluted() bool {
	return b.gathered < b.purchases && slices.ContainsFunc(b.tier, (*poolState).varied)
}

// ceiling is the most of each resource that a node for the group can hold with the variety
// needed; nil when no variety is needed.
func (b *buyer) ceiling(i int, g *candidateGroup) *quantity.Vector {
	pool := b.tier[i]
	if !pool.varied() || b.variety.relaxing {
		return nil
	}
	var out, rows = quantity.Vector{}, bitset.Set(nil)
	for _, l := range g.shapeGroups {
		rows.Merge(l.fits[i].All)
	}
	for d, n := range b.whole {
		if n == 0 {
			out[d] = quantity.Most
			continue
		}
		out[d], _ = pool.Most(quantity.Dim(d), func(much bitset.Set) bool {
			return b.variety.enough(pool, pool.Base, rows.And(much), pool.minValues.least, pool.minValues.may)
		})
	}
	return &out
}

func lesser(a, b *quantity.Vector) *quantity.Vector {
	out := *a
	for d := range out {
		out[d] = min(out[d], b[d])
	}
	return &out
}

// buyFrom launches nodes for the allotments from one tier. Where the settings allow it, pods
// that cannot be placed with the variety that minValues ask for are placed with less, before
// the next tier is tried: heavier pools come first.
func (s *solver) buyFrom(tier []*poolState, last bool, allotments []*allotment) {
	s.buy(tier, last, allotments)
	if !s.w.Settings.RelaxMinValues || !slices.ContainsFunc(tier, (*poolState).varied) {
		return
	}
	s.variety.relaxing = true
	s.buy(tier, last, allotments)
	s.variety.relaxing = false
}

// more is the larger of two numbers, label by label.
func more(a, b []int) []int {
	out := slices.Clone(a)
	for i, n := range b {
		out[i] = max(out[i], n)
	}
	return out
}
