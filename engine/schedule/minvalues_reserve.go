// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"slices"
	"sort"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/quantity"
)

// canBecome reports whether limits and quota let the launch become the offering in place of
// its own.
func (mc *minValuesChecker) canBecome(l *launch, row int) bool {
	pool := l.pool
	if l.reservedCapacity == nil { // nothing is reserved yet
		return pool.minValues.launchable(row)
	}
	if !pool.withinReserved(l, row) {
		return false
	}
	if pool.minValues.inCountedDomains != nil && !pool.minValues.inCountedDomains.Has(row) {
		return false
	}
	// More expensive offerings need no quota now, only before the plan; see addUntilEnough.
	return row > l.row && mc.quota.coveredAtStart(&pool.Catalog.Offerings[row]) || mc.quota.covers(&pool.Catalog.Offerings[row], pool.Catalog.Offerings[l.row].QuotaUses)
}

// withinReserved reports whether the offering takes no more of the pool's limits than is
// reserved for the launch.
func (pool *poolState) withinReserved(l *launch, row int) bool {
	return pool.uncounted(row) == nil && !slices.ContainsFunc(pool.Limited, func(d quantity.Dim) bool { return pool.capacity(row)[d] > l.reservedCapacity[d] })
}

// addUntilEnough adds those of the suitable offerings that the launch needs for its minValues:
// there was quota for them when it was planned, though other nodes of the plan use it since,
// and as much of the limits is reserved for the launch.
func (mc *minValuesChecker) addUntilEnough(l *launch, rows *bitset.Set, suitable bitset.Set) {
	pool := l.pool
	count := mc.countValues(pool, l.requirements.set(), *rows, l.requiredValues, nil)
	if slices.Equal(count.n, l.requiredValues) {
		return
	}
	first := rows.First() // there must be quota for the offering that is tried first
	for row := range suitable.Minus(*rows).All() {
		if row < first || !mc.quota.coveredAtStart(&pool.Catalog.Offerings[row]) || !pool.withinReserved(l, row) {
			continue
		}
		for i := range pool.MinValues {
			if count.n[i] >= l.requiredValues[i] {
				continue
			}
			if n := addValues(&count.seen[i], &pool.MinValues[i], l.requirements.set(), row); n > 0 {
				count.n[i] += n
				rows.Put(row)
			}
		}
	}
}

// reserveLaunch reserves what a launch for used takes of limits and quota. It reports false when
// these do not leave enough values for the launch any more.
func (mc *minValuesChecker) reserveLaunch(l *launch, used *quantity.Vector) bool {
	if l.pool.hasMinValues() {
		capacity, ok := mc.capacityToReserve(l, mc.largeEnough(l.pool, l.requirements, used).Clone(), l.pool.minValues.launchable)
		if !ok {
			return false
		}
		l.reservedCapacity = &capacity
	}
	mc.limits.reserve(l)
	return true
}

// relaxReserved reserves for a launch what it takes with the values that its pods leave, while minValues are
// relaxed: fewer values may need less of the limits, which other launches can use then. It reports false
// for other launches.
func (mc *minValuesChecker) relaxReserved(l *launch) bool {
	if !mc.relaxing || !l.pool.hasMinValues() {
		return false
	}
	mc.limits.release(l)
	mc.reserveAgain(l)
	return true
}

// reserveAgain reserves for a launch with more pods what it takes now. What it took before must be released.
func (mc *minValuesChecker) reserveAgain(l *launch) {
	l.reservedCapacity = nil
	mc.lowerRequired(l)
	mc.reserveLaunch(l, &l.used)
}

// capacityToReserve is what a launch takes of its pool's limits: of each resource, the capacity
// of its own offering or of the largest that it needs for minValues. It reports false when
// those of the offerings for which may reports true leave too few values. It changes rows.
func (mc *minValuesChecker) capacityToReserve(l *launch, rows bitset.Set, may func(int) bool) (quantity.Vector, bool) {
	pool := l.pool
	capacity := *pool.capacity(l.row)
	if !mc.enough(pool, l.requirements.set(), rows, l.requiredValues, may) {
		return capacity, false
	}
	for _, d := range pool.Limited {
		sizes := pool.sizes(d)
		upTo := func(n int64) func(int) bool {
			return func(row int) bool { return pool.capacity(row)[d] <= n && may(row) }
		}
		at := sort.Search(len(sizes), func(i int) bool { return mc.enough(pool, l.requirements.set(), rows, l.requiredValues, upTo(sizes[i])) })
		if at < len(sizes) {
			capacity[d] = max(capacity[d], sizes[at])
		}
		for row := range rows.All() {
			if pool.capacity(row)[d] > capacity[d] {
				rows.Drop(row)
			}
		}
	}
	return capacity, true
}
