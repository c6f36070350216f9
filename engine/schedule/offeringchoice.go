// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/quantity"
)

// maxInstanceTypes is how many instance types a NodeClaim lists: Karpenter's
// MaxInstanceTypes.
const maxInstanceTypes = 600

// offeringChooser decides which offerings a launch accepts.
type offeringChooser struct {
	limits                      *limits
	quota                       *quota
	topology                    *topology
	minValues                   *minValuesChecker
	accepted, suitable, holding bitset.Set // scratch: see reserveAccepted
}

// acceptedOfferings are the offerings that one launch accepts. Its sets are valid until the
// chooser decides about another launch.
type acceptedOfferings struct {
	rows bitset.Set
	// holding are the pool's offerings that have the capacity for the launch's pods, whether
	// or not anything else excludes them.
	holding bitset.Set
}

// chooseAndReserve decides which offerings the launch accepts. It sets the first, and reserves what
// the launch takes of limits and quota with these offerings.
func (oc *offeringChooser) chooseAndReserve(l *launch) acceptedOfferings {
	accepted := oc.reserveAccepted(l)
	l.first = accepted.rows.First()
	oc.limits.swapQuota(l)
	return accepted
}

// reserveAccepted decides which offerings the launch accepts: those that hold its pods within
// limits and quota. It reserves in the limits what the largest of them takes beyond the planned
// one: whichever is launched in the end, the pool keeps within its limits.
func (oc *offeringChooser) reserveAccepted(l *launch) acceptedOfferings {
	pool := l.pool
	oc.holding.Copy(pool.Offerings)
	pool.DropNotFitting(oc.holding, &l.used)
	oc.accepted.Copy(oc.choosable(l))
	rows := oc.accepted
	rows.Keep(oc.holding)
	if l.isForOwed() {
		rows.DropAll(pool.tooSmall)
	}
	if pool.hasMinValues() {
		oc.suitable.Copy(rows)
	}
	if oc.limits.offeringsShortOfQuota(pool).Intersects(rows) {
		oc.dropShortOfQuota(l, rows)
	}
	if len(pool.Limited)+len(pool.UncountedLimits) > 0 {
		oc.dropOverLimits(l, rows)
		oc.reserveLargest(l, rows)
	}
	if pool.hasMinValues() {
		oc.minValues.addUntilEnough(l, &rows, oc.suitable)
	}
	if len(pool.Catalog.Types) > maxInstanceTypes {
		oc.keepFirstTypes(l, rows, maxInstanceTypes)
	}
	rows.Put(l.row) // it was reserved, even if quota or other launches exclude it now
	return acceptedOfferings{rows: rows, holding: oc.holding}
}

// choosable returns the available offerings that meet the launch's requirements.
func (oc *offeringChooser) choosable(l *launch) bitset.Set {
	reqs := l.requirements
	if reqs.choosable == nil || reqs.choosableAt != oc.topology.recounts {
		reqs.choosableAt = oc.topology.recounts
		reqs.choosable = oc.matching(l).And(oc.topology.inCountedDomains(l.pool))
		reqs.choosable.Keep(l.pool.available())
	}
	return reqs.choosable
}

// mayBecome returns the offerings of which the launch may be one in the end, whatever domains are opened
// until then: those that may be chosen and hold its pods, and the planned one.
func (oc *offeringChooser) mayBecome(l *launch) bitset.Set {
	rows := oc.matching(l).And(l.pool.available())
	l.pool.DropNotFitting(rows, &l.used)
	rows.Put(l.row)
	return rows
}

// matching returns the offerings on which the launch's requirements hold.
func (oc *offeringChooser) matching(l *launch) bitset.Set {
	reqs := l.requirements
	if reqs.matching == nil {
		reqs.matching = reqs.rows.And(l.pool.Matching(reqs.set()))
	}
	return reqs.matching
}

// dropShortOfQuota drops the offerings that need more quota than is left and than the launch has
// reserved.
func (oc *offeringChooser) dropShortOfQuota(l *launch, rows bitset.Set) {
	reserved := l.pool.Catalog.Offerings[l.row].QuotaUses
	for row := range rows.And(oc.limits.offeringsShortOfQuota(l.pool)).All() {
		if !oc.quota.covers(&l.pool.Catalog.Offerings[row], reserved) {
			rows.Drop(row)
		}
	}
}

// dropOverLimits drops the offerings that exceed the pool's limits in place of what the launch
// has reserved.
func (oc *offeringChooser) dropOverLimits(l *launch, rows bitset.Set) {
	pool, reserved := l.pool, l.reserved()
	for _, u := range pool.UncountedLimits {
		for row := range rows.And(u.Offerings).All() {
			rows.Drop(row)
		}
	}
	for _, d := range pool.Limited {
		for _, row := range pool.descending(d) {
			if pool.capacity(row)[d]-reserved[d] <= max(0, pool.left[d]) {
				break
			}
			rows.Drop(row)
		}
	}
}

// reserveLargest takes out of the pool's limits what the largest of the offerings takes beyond
// what the launch has reserved.
func (oc *offeringChooser) reserveLargest(l *launch, rows bitset.Set) {
	pool, reserved := l.pool, l.reserved()
	var extra quantity.Vector
	for _, d := range pool.Limited {
		for _, row := range pool.descending(d) {
			if rows.Has(row) {
				extra[d] = max(0, pool.capacity(row)[d]-reserved[d])
				break
			}
		}
	}
	pool.left.AddIn(pool.Limited, &extra, -1)
}

// keepFirstTypes keeps the offerings of n instance types: first those without which there would
// be too few values for minValues, then the others in order.
func (oc *offeringChooser) keepFirstTypes(l *launch, rows bitset.Set, n int) {
	c := l.pool.Catalog
	seen := make([]bool, len(c.Types))
	if l.pool.hasMinValues() {
		n -= oc.minValues.markNeededTypes(l, rows, seen)
	}
	for row := range rows.All() {
		switch t := c.Offerings[row].Type; {
		case seen[t]:
		case n <= 0:
			rows.Drop(row)
		default:
			seen[t] = true
			n--
		}
	}
}

// holdingBefore returns the offerings before row, none of which costs more, that have the
// capacity for the launch's pods. It changes holding.
func (a acceptedOfferings) holdingBefore(row int) bitset.Set {
	rows := a.holding
	if words := row/64 + 1; len(rows) >= words {
		rows = rows[:words]
		rows[words-1] &= 1<<(row%64) - 1
	}
	return rows
}
