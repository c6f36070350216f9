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
func Static(w *cluster.Snapshot, pool string, n int) []Launch {
	bare := *w
	bare.Classes = nil // it launches nodes without pods
	s := newSolver(newPreferenceSearch(&bare), &learned{}, nil, noMaxPrice)
	i := slices.IndexFunc(s.pools.all, func(m *poolState) bool { return m.Pool.Name == pool })
	if i < 0 || s.pools.all[i].Pool.Blocked != "" {
		return nil
	}
	m := s.pools.all[i]
	rows := m.bearing()
	base := s.requirements.intern(m.Base, rows)
	for row := range rows.And(m.onSale()).All() {
		for len(s.launches.all) < n && s.limits.affordable(m, row) > 0 {
			l := &launch{pool: m, row: row, free: m.Allocatable[row], requirements: base}
			if !s.stand(l) {
				break
			}
			s.launches.all = append(s.launches.all, l)
		}
	}
	if m.varied() && !w.Settings.RelaxMinValues {
		if bought, poor, _ := s.poor(m); poor > 0 {
			return Static(w, pool, bought-poor) // the last took the variety of the others
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
	m := l.pool
	if !m.varied() {
		return s.variety.order(l, &none)
	}
	l.least = m.minValues.least
	if s.variety.order(l, &none) {
		return true
	}
	if !s.w.Settings.RelaxMinValues {
		return false
	}
	l.least = slices.Clone(s.variety.values(m, l.requirements.set, s.variety.holding(m, l.requirements, &none), m.minValues.least, m.minValues.may))
	return s.variety.order(l, &none)
}

// bearing returns the offerings that have capacity for the DaemonSets that match them.
func (m *poolState) bearing() bitset.Set {
	out := m.Offerings.Clone()
	for row := range m.Offerings.All() {
		if slices.Min(m.Allocatable[row][:]) < 0 {
			out.Drop(row)
		}
	}
	return out
}
