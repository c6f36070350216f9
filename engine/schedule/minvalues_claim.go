// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"slices"
	"sort"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/quantity"
)

// exchangeable reports whether limits and quota let the launch become the offering in place
// of its own.
func (s *variety) exchangeable(l *launch, row int) bool {
	pool := l.pool
	if l.claim == nil { // not ordered yet
		return pool.minValues.may(row)
	}
	if !pool.claimed(l, row) {
		return false
	}
	if pool.minValues.within != nil && !pool.minValues.within.Has(row) {
		return false
	}
	// More expensive offerings need no quota now, only before the plan; see putBack.
	return row > l.row && s.quota.covered(&pool.Catalog.Offerings[row]) || s.quota.covers(&pool.Catalog.Offerings[row], pool.Catalog.Offerings[l.row].QuotaUses)
}

// claimed reports whether the offering is within what the launch claims of the pool's limits.
func (pool *poolState) claimed(l *launch, row int) bool {
	return pool.uncounted(row) == nil && !slices.ContainsFunc(pool.Limited, func(d quantity.Dim) bool { return pool.capacity(row)[d] > l.claim[d] })
}

// putBack adds to the launch's offerings as many of before as it needs for its variety: there
// was quota for them when it was planned, though other nodes of the plan use it since, and
// the launch has claimed as much of the limits.
func (s *variety) putBack(l *launch, rows *bitset.Set, before bitset.Set) {
	pool := l.pool
	if s.enough(pool, l.requirements.set, *rows, l.least, nil) {
		return
	}
	first := rows.First() // there must be quota for the offering that is tried first
	for row := range before.Minus(*rows).All() {
		if row < first || !s.quota.covered(&pool.Catalog.Offerings[row]) || !pool.claimed(l, row) {
			continue
		}
		for i := range pool.MinValues {
			if s.had[i] >= l.least[i] {
				continue
			}
			if n := s.unseen(&pool.MinValues[i], l.requirements.set, row, &s.seen[i]); n > 0 {
				s.had[i] += n
				rows.Put(row)
			}
		}
	}
}

// order reserves what a launch for used takes of limits and quota. It reports false when
// these do not leave the launch the variety it needs any more.
func (s *variety) order(l *launch, used *quantity.Vector) bool {
	pool := l.pool
	if pool.varied() {
		claim, ok := s.claim(l, used)
		if !ok {
			return false
		}
		l.claim = &claim
	}
	s.limits.reserve(l)
	return true
}

// claim is what a node takes of its pool's limits: the capacity of its offering or, where it
// must keep variety, that of the largest offering it needs for that. It reports false when
// the limits and quota that are left do not leave it the variety.
func (s *variety) claim(l *launch, used *quantity.Vector) (quantity.Vector, bool) {
	pool := l.pool
	claim := *pool.capacity(l.row)
	rows := s.holding(pool, l.requirements, used).Clone()
	if !s.enough(pool, l.requirements.set, rows, l.least, pool.minValues.may) {
		return claim, false
	}
	for _, d := range pool.Limited {
		sizes := pool.sizes(d)
		upTo := func(n int64) func(int) bool {
			return func(row int) bool { return pool.capacity(row)[d] <= n && pool.minValues.may(row) }
		}
		at := sort.Search(len(sizes), func(i int) bool { return s.enough(pool, l.requirements.set, rows, l.least, upTo(sizes[i])) })
		if at < len(sizes) {
			claim[d] = max(claim[d], sizes[at])
		}
		for row := range rows.All() {
			if pool.capacity(row)[d] > claim[d] {
				rows.Drop(row)
			}
		}
	}
	return claim, true
}

// sizes lists the capacities of one resource, ascending.
func (pool *poolState) sizes(d quantity.Dim) []int64 {
	var out []int64
	for _, row := range slices.Backward(pool.descending(d)) {
		if n := pool.capacity(row)[d]; len(out) == 0 || out[len(out)-1] != n {
			out = append(out, n)
		}
	}
	return out
}
