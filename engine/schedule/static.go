// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/quantity"
)

// Static chooses n nodes for a pool that keeps a fixed number of nodes, whatever the pods:
// the cheapest offering that meets its requirements and has capacity for the DaemonSets,
// again and again. It returns fewer when limits, quota, stock or the variety for its
// minValues run out, and none when the pool is blocked or unknown. It does not spread the
// nodes over domains.
func Static(w *cluster.Snapshot, name string, n int) []Launch {
	bare := *w
	bare.Classes = nil // it launches nodes without pods
	s := newSolver(newPreferenceSearch(&bare), &learned{}, nil, noMaxPrice)
	i := slices.IndexFunc(s.pools.all, func(pool *poolState) bool { return pool.Pool.Name == name })
	if i < 0 || s.pools.all[i].Pool.Blocked != "" {
		return nil
	}
	pool := s.pools.all[i]
	rows := pool.bearing()
	base := s.requirements.intern(pool.Base, rows)
	for row := range rows.And(pool.available()).All() {
		for len(s.launches.all) < n && s.limits.affordable(pool, row) > 0 {
			l := &launch{pool: pool, row: row, free: pool.Allocatable[row], requirements: base}
			if !s.stand(l) {
				break
			}
			s.launches.all = append(s.launches.all, l)
		}
	}
	if pool.hasMinValues() && !w.Settings.RelaxMinValues {
		if bought, poor, _ := s.belowMinValues(pool); poor > 0 {
			return Static(w, name, bought-poor) // the last took the variety of the others
		}
	}
	var out []Launch
	for _, l := range s.launches.all {
		out = append(out, s.descriptions.describe(l))
	}
	return out
}

// stand reserves a node without pods, with all the variety that minValues ask for or, if the
// settings allow it, as much of it as there is.
func (s *solver) stand(l *launch) bool {
	var none quantity.Vector
	pool := l.pool
	if !pool.hasMinValues() {
		return s.minValues.reserve(l, &none)
	}
	l.requiredValues = pool.minValues.required
	if s.minValues.reserve(l, &none) {
		return true
	}
	if !s.w.Settings.RelaxMinValues {
		return false
	}
	l.requiredValues = slices.Clone(s.minValues.countValues(pool, l.requirements.set, s.minValues.largeEnough(pool, l.requirements, &none), pool.minValues.required, pool.minValues.launchable).n)
	return s.minValues.reserve(l, &none)
}

// bearing returns the offerings that have capacity for the DaemonSets that match them.
func (pool *poolState) bearing() bitset.Set {
	out := pool.Offerings.Clone()
	for row := range pool.Offerings.All() {
		if slices.Min(pool.Allocatable[row][:]) < 0 {
			out.Drop(row)
		}
	}
	return out
}
