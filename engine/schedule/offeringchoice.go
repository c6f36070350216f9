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

// chooseFirst decides which offerings the launch accepts. It sets the first, and reserves what
// the launch takes of limits and quota with these offerings.
func (s *offeringChooser) chooseFirst(l *launch) acceptedOfferings {
	accepted := s.reserveAccepted(l)
	l.first = accepted.rows.First()
	s.limits.swapQuota(l)
	return accepted
}

// reserveAccepted decides which offerings the launch accepts: those that hold its pods within
// limits and quota. It reserves in the limits what the largest of them takes beyond the planned
// one: whichever is launched in the end, the pool keeps within its limits.
func (s *offeringChooser) reserveAccepted(l *launch) acceptedOfferings {
	pool := l.pool
	s.holding.Copy(pool.Offerings)
	pool.DropWithoutRoom(s.holding, &l.used)
	s.accepted.Copy(s.choosable(l))
	rows := s.accepted
	rows.Keep(s.holding)
	if pool.hasMinValues() {
		s.suitable.Copy(rows)
	}
	if s.limits.scarceIn(pool).Meets(rows) {
		s.dropScarce(l, rows)
	}
	if len(pool.Limited)+len(pool.Uncounted) > 0 {
		s.dropOverLimits(l, rows)
		s.reserveLargest(l, rows)
	}
	if pool.hasMinValues() {
		s.minValues.addUntilEnough(l, &rows, s.suitable)
	}
	if len(pool.Catalog.Types) > maxInstanceTypes {
		s.keepFirstTypes(l, rows, maxInstanceTypes)
	}
	rows.Put(l.row) // it was reserved, even if quota or other launches exclude it now
	return acceptedOfferings{rows: rows, holding: s.holding}
}

// choosable returns the available offerings that meet the launch's requirements.
func (s *offeringChooser) choosable(l *launch) bitset.Set {
	j := l.requirements
	if j.choosable == nil {
		j.choosable = s.matching(l).And(s.topology.inCountedDomains(l.pool))
		j.choosable.Keep(l.pool.available())
	}
	return j.choosable
}

// matching returns the offerings on which the launch's requirements hold.
func (s *offeringChooser) matching(l *launch) bitset.Set {
	j := l.requirements
	if j.matching == nil {
		j.matching = j.rows.And(l.pool.Matching(j.set))
	}
	return j.matching
}

// dropScarce drops the offerings that need more quota than is left and than the launch has
// reserved.
func (s *offeringChooser) dropScarce(l *launch, rows bitset.Set) {
	reserved := l.pool.Catalog.Offerings[l.row].QuotaUses
	for row := range rows.And(s.limits.scarceIn(l.pool)).All() {
		if !s.quota.covers(&l.pool.Catalog.Offerings[row], reserved) {
			rows.Drop(row)
		}
	}
}

// dropOverLimits drops the offerings that exceed the pool's limits in place of what the launch
// has reserved.
func (s *offeringChooser) dropOverLimits(l *launch, rows bitset.Set) {
	pool, reserved := l.pool, l.reserved()
	for _, u := range pool.Uncounted {
		for row := range rows.And(u.Rows).All() {
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
func (s *offeringChooser) reserveLargest(l *launch, rows bitset.Set) {
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
	pool.left = pool.left.Sub(extra)
}

// keepFirstTypes keeps the offerings of n instance types: first those without which there would
// be too few values for minValues, then the others in order.
func (s *offeringChooser) keepFirstTypes(l *launch, rows bitset.Set, n int) {
	c := l.pool.Catalog
	seen := make([]bool, len(c.Types))
	if l.pool.hasMinValues() {
		n -= s.minValues.markNeededTypes(l, rows, seen)
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

// dropFrom drops a row and all rows after it, which are not cheaper, from the offerings that
// hold the pods, and returns the rest.
func (a acceptedOfferings) dropFrom(row int) bitset.Set {
	rows := a.holding
	if words := row/64 + 1; len(rows) >= words {
		rows = rows[:words]
		rows[words-1] &= 1<<(row%64) - 1
	}
	return rows
}
