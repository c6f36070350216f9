// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/quantity"
)

// alikePools is pools of which some are alike to pods that look at certain labels: see
// PoolCatalog.FirstAlike. What the pods can use of a pool is then computed for the first of those
// that are alike. While limits let that one launch all that it offers, a later one offers nothing
// more.
type alikePools struct {
	all   []*poolState
	alike []alikePool // by pool
	// firsts are the indices of the pools that are the first of those alike.
	firsts []int
}

// alikePool is what alikePools keeps of a pool.
type alikePool struct {
	of   *cluster.PoolCatalog
	kind int // the index in firsts of the first pool that is alike
	// These are of next, for pools that are the first: which one alike it has returned last, and
	// whether one that it returned may launch all that it offers.
	last    int
	covered bool
}

// find finds which of the pools are alike to pods that look at the keys. A pool with minValues is
// alike to no other: what fits there changes with limits and quota. Nor is any pool while launches
// may open no domain: it depends on all pods which domains those are.
func (ap *alikePools) find(pools []*poolState, t *topology, keys []*constraint.Key) {
	ap.all, ap.alike, ap.firsts = pools, slices.Grow(ap.alike[:0], len(pools)), ap.firsts[:0]
	for i, pool := range pools {
		like := alikePool{of: pool.PoolCatalog, kind: len(ap.firsts)}
		if !t.mustNotOpenDomains && !pool.hasMinValues() {
			like.of = pool.FirstAlike(keys)
			if kind := slices.IndexFunc(ap.firsts, func(o int) bool { return ap.alike[o].of == like.of }); kind >= 0 {
				like.kind = kind
			}
		}
		if like.kind == len(ap.firsts) {
			ap.firsts = append(ap.firsts, i)
		}
		ap.alike = append(ap.alike, like)
	}
}

// first is the index of the first pool that pool i is alike.
func (ap *alikePools) first(i int) int { return ap.firsts[ap.alike[i].kind] }

// kind is the index in firsts of the first pool that pool i is alike. Pools of one kind are alike.
func (ap *alikePools) kind(i int) int { return ap.alike[i].kind }

// firstPools lists the first of each of the pools that are alike.
func (ap *alikePools) firstPools() []*poolState {
	out := make([]*poolState, len(ap.firsts))
	for kind, i := range ap.firsts {
		out[kind] = ap.all[i]
	}
	return out
}

// next returns the index of the first pool after i that may offer what no pool before it does; -1
// when there is none. A walk begins with an i of -1, and asks for each pool in turn.
func (ap *alikePools) next(i int) int {
	for i++; i < len(ap.all); i++ {
		first := &ap.alike[ap.first(i)]
		if ap.first(i) == i {
			first.covered = false
		} else if !first.covered {
			first.covered = ap.all[first.last].mayLaunchAll()
		}
		if !first.covered || !ap.all[i].launched.Empty() {
			first.last = i
			return i
		}
	}
	return -1
}

// mayLaunchAll reports whether the pool's limits allow one more node of every offering, and
// minValues exclude none.
func (pool *poolState) mayLaunchAll() bool {
	return pool.nodesLeft != 0 && len(pool.UncountedLimits) == 0 && !pool.hasMinValues() && pool.closed.Empty() &&
		!slices.ContainsFunc(pool.Limited, func(d quantity.Dim) bool { return pool.largest(d) > pool.left[d] })
}

// largest is the largest capacity of one resource that an offering has.
func (pool *poolState) largest(d quantity.Dim) int64 {
	most, known := pool.largestOf[d]
	if !known {
		for row := range pool.Offerings.All() {
			most = max(most, pool.capacity(row)[d])
		}
		if pool.largestOf == nil {
			pool.largestOf = map[quantity.Dim]int64{}
		}
		pool.largestOf[d] = most
	}
	return most
}

// keySet collects labels.
type keySet map[*constraint.Key]bool

func (ks keySet) add(keys []*constraint.Key) {
	for _, k := range keys {
		ks[k] = true
	}
}
