// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"maps"
	"math"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
)

// limits is what a round may still launch by its maximum price, the limits of the
// NodePools, and the quota.
type limits struct {
	pools    *poolList
	quota    *quota
	spending spending
	// reservations counts the calls of reserve and release: it differs after any change.
	reservations int
	shortOfQuota map[*poolState]bitset.Set // see offeringsShortOfQuota
	largest      map[string]int64          // see largestUse
}

func newLimits(pools *poolList, q *quota, maxPrice offering.Price) limits {
	return limits{pools: pools, quota: q, spending: spending{max: maxPrice}, shortOfQuota: map[*poolState]bitset.Set{}, largest: map[string]int64{}}
}

// overMaxPrice reports whether the attempt would exceed its maximum price, and is to be dropped.
func (l *limits) overMaxPrice() bool { return l.spending.overMax }

// nodesAllowed is how many more nodes of the offering may be launched.
func (l *limits) nodesAllowed(pool *poolState, row int) int {
	n := l.spending.nodesAllowed(pool.Catalog.Offerings[row].Price)
	if n = min(n, pool.nodesAllowed(row)); n == 0 {
		return 0
	}
	return min(n, l.quota.nodesAllowed(&pool.Catalog.Offerings[row]))
}

// reserve takes a launch out of the limits: the price and quota use of its planned offering, and
// the capacity reserved for it.
func (l *limits) reserve(of *launch) {
	pool := of.pool
	l.reservations++
	l.spending.add(pool.Catalog.Offerings[of.row].Price)
	pool.reserve(of)
	l.quota.take(&pool.Catalog.Offerings[of.row], 1)
}

// release undoes reserve.
func (l *limits) release(of *launch) {
	pool := of.pool
	l.reservations++
	l.spending.subtract(pool.Catalog.Offerings[of.row].Price)
	pool.release(of)
	l.quota.take(&pool.Catalog.Offerings[of.row], -1)
}

// swapQuota takes the quota use of the launch's first offering in place of the planned one's:
// two launches must not both fall back on the last of a quota.
func (l *limits) swapQuota(of *launch) {
	planned, first := &of.pool.Catalog.Offerings[of.row], &of.pool.Catalog.Offerings[of.first]
	if of.first == of.row || len(planned.QuotaUses)+len(first.QuotaUses) == 0 {
		return
	}
	l.quota.take(planned, -1)
	l.quota.take(first, 1)
	for _, d := range first.QuotaUses {
		if left, ok := l.quota.left[d.Quota]; ok && left < l.largestUse(d.Quota) {
			clear(l.shortOfQuota)
			return
		}
	}
}

// largestUse is the most that one node of any offering uses of the quota.
func (l *limits) largestUse(name string) int64 {
	if most, ok := l.largest[name]; ok {
		return most
	}
	most := int64(0)
	for _, pool := range l.pools.all {
		for i := range pool.Catalog.Offerings {
			for _, d := range pool.Catalog.Offerings[i].QuotaUses {
				if d.Quota == name {
					most = max(most, d.Amount)
				}
			}
		}
	}
	l.largest[name] = most
	return most
}

// offeringsShortOfQuota returns the offerings for which too little quota is left: only a
// launch that gives back what it reserved may still choose one.
func (l *limits) offeringsShortOfQuota(pool *poolState) bitset.Set {
	rows, ok := l.shortOfQuota[pool]
	if !ok {
		for i := range pool.Catalog.Offerings {
			if !l.quota.covers(&pool.Catalog.Offerings[i], nil) {
				rows.Put(i)
			}
		}
		l.shortOfQuota[pool] = rows
	}
	return rows
}

// save returns a function that restores the quota and what is left of the pools' limits.
func (l *limits) save() (restore func()) {
	quotas, left := maps.Clone(l.quota.left), make([]quantity.Vector, len(l.pools.all))
	for i, pool := range l.pools.all {
		left[i] = pool.left
	}
	return func() {
		l.quota.left = quotas
		clear(l.shortOfQuota)
		for i, pool := range l.pools.all {
			pool.left = left[i]
		}
	}
}

// spending is what the launches of an attempt cost as planned. An attempt that would spend
// more than the maximum is over: it stops launching nodes and its plan is dropped.
type spending struct {
	spent, max offering.Price
	overMax    bool
}

// noMaxPrice is the maximum price of an attempt that may cost any amount.
const noMaxPrice = offering.Price(math.MaxInt64)

// nodesAllowed is how many nodes of the price may still be launched. The last one may exceed the
// maximum price.
func (s *spending) nodesAllowed(price offering.Price) int {
	if s.overMax {
		return 0
	}
	if price <= 0 || s.max == noMaxPrice {
		return math.MaxInt32
	}
	return int(min((s.max-s.spent)/price+1, math.MaxInt32))
}

func (s *spending) add(price offering.Price) {
	s.spent = s.spent.Add(price)
	s.overMax = s.spent > s.max
}

func (s *spending) subtract(price offering.Price) { s.spent -= price }

// stopIfRestExceeds gives up when the rest of the nodes costs more than what is left, in USD per
// hour.
func (s *spending) stopIfRestExceeds(cost float64) {
	if cost*(1-1e-9)*1e9 > float64(s.max-s.spent)+1 {
		s.overMax = true
	}
}
