// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"iter"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
)

// alikePools is pools of which some are alike to pods that look at certain labels: see
// PoolCatalog.FirstAlike. What the pods can use of a pool is then computed for the first of those that
// are alike. While limits let that one launch all that it offers, a later one offers nothing more.
type alikePools struct {
	all     []*poolState
	first   []int                  // by pool, the index of the first that is alike
	firsts  []*cluster.PoolCatalog // scratch
	covered bitset.Set             // scratch: see offeringMore
}

// find finds which of the pools are alike to pods that look at the keys. A pool with minValues is
// alike to no other: what fits there changes with limits and quota. Nor is any pool while launches may
// open no domain: it depends on all pods which domains those are.
func (ap *alikePools) find(pools []*poolState, t *topology, keys []*constraint.Key) {
	ap.all, ap.first, ap.firsts = pools, ap.first[:0], ap.firsts[:0]
	for i, pool := range pools {
		of, first := pool.PoolCatalog, i
		if !t.mustNotOpenDomains && !pool.hasMinValues() {
			of = pool.FirstAlike(keys)
			if at := slices.Index(ap.firsts, of); at >= 0 {
				first = at
			}
		}
		ap.firsts, ap.first = append(ap.firsts, of), append(ap.first, first)
	}
}

// offeringMore yields the indices of the pools that may offer what no pool before them does.
func (ap *alikePools) offeringMore() iter.Seq[int] {
	return func(yield func(int) bool) {
		clear(ap.covered)
		for i, pool := range ap.all {
			if ap.covered.Has(ap.first[i]) && pool.launched.Empty() {
				continue
			}
			if !yield(i) {
				return
			}
			if pool.mayLaunchAll() {
				ap.covered.Put(ap.first[i])
			}
		}
	}
}

// firstPools lists the first of each of the pools that are alike.
func (ap *alikePools) firstPools() []*poolState {
	var out []*poolState
	for i, pool := range ap.all {
		if ap.first[i] == i {
			out = append(out, pool)
		}
	}
	return out
}

// mayLaunchAll reports whether the pool's limits allow one more node of every offering, and minValues
// exclude none.
func (pool *poolState) mayLaunchAll() bool {
	if pool.nodesLeft == 0 || len(pool.UncountedLimits) > 0 || pool.hasMinValues() {
		return false
	}
	for _, d := range pool.Limited {
		if rows := pool.descending(d); len(rows) > 0 && pool.capacity(rows[0])[d] > pool.left[d] {
			return false
		}
	}
	return true
}

// keySet collects labels.
type keySet map[*constraint.Key]bool

func (ks keySet) add(keys []*constraint.Key) {
	for _, k := range keys {
		ks[k] = true
	}
}
