// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/quantity"
)

// StaticLaunches chooses n nodes for a pool that keeps a fixed number of nodes, whatever the pods:
// the cheapest offering that meets its requirements and has capacity for the DaemonSets, again and
// again. It returns fewer when limits, quota, stock or the values for its minValues run out, and
// none when the pool is blocked or unknown. It does not spread the nodes over domains.
func StaticLaunches(snapshot *cluster.Snapshot, name string, n int) []Launch {
	bare := *snapshot
	bare.Classes = nil // it launches nodes without pods
	s := newSolver(newPreferenceSearch(&bare), &learned{}, nil, noMaxPrice)
	i := slices.IndexFunc(s.pools.all, func(pool *poolState) bool { return pool.Pool.Name == name })
	if i < 0 || s.pools.all[i].Pool.Blocked != "" {
		return nil
	}
	pool := s.pools.all[i]
	rows := pool.offeringsFittingDaemons()
	base := s.requirements.intern(ofPool(pool.NodeRequirements), rows)
	for row := range rows.And(pool.available()).All() {
		for len(s.launches.all) < n && s.limits.nodesAllowed(pool, row) > 0 {
			l := &launch{pool: pool, row: row, free: pool.Allocatable[row], requirements: base}
			if !s.reserveWithoutPods(l) {
				break
			}
			s.launches.all = append(s.launches.all, l)
		}
	}
	if pool.hasMinValues() && !snapshot.Settings.RelaxMinValues {
		if n := s.belowMinValues()[pool]; n.below > 0 {
			return StaticLaunches(snapshot, name, n.launched-n.below) // the last took the values of the others
		}
	}
	var out []Launch
	for _, l := range s.launches.all {
		out = append(out, s.descriptions.chooseAndDescribe(l))
	}
	return out
}

// reserveWithoutPods reserves a node without pods, with all the values that minValues ask for
// or, if the settings allow it, as many of them as there are.
func (s *solver) reserveWithoutPods(l *launch) bool {
	var none quantity.Vector
	pool := l.pool
	if !pool.hasMinValues() {
		return s.minValues.reserveLaunch(l, &none)
	}
	l.requiredValues = pool.minValues.required
	if s.minValues.reserveLaunch(l, &none) {
		return true
	}
	if !s.snapshot.Settings.RelaxMinValues {
		return false
	}
	l.requiredValues = slices.Clone(s.minValues.countValues(pool, l.requirements.set(), s.minValues.largeEnough(pool, l.requirements, &none), pool.minValues.required, pool.minValues.launchable).n)
	return s.minValues.reserveLaunch(l, &none)
}

// offeringsFittingDaemons returns the offerings that have capacity for the DaemonSets that
// match them.
func (pool *poolState) offeringsFittingDaemons() bitset.Set {
	out := pool.Offerings.Clone()
	for row := range pool.Offerings.All() {
		if slices.Min(pool.Allocatable[row][:]) < 0 {
			out.Drop(row)
		}
	}
	return out
}
