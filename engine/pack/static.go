package pack

import (
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/world"
)

// Static chooses n machines for a pool that keeps a fixed number of nodes,
// whatever the pods: the cheapest that meet its requirements and have room for
// their DaemonSets, over and over. Fewer come back when limits, quota or stock do
// not last; none when the pool is blocked or unknown. It spreads over nothing.
func Static(w *world.World, pool string, n int) []Launch {
	bare := *w
	bare.Classes = nil // it buys for nobody
	s := newSolver(newBargain(&bare), &lessons{}, nil, noPurse)
	i := slices.IndexFunc(s.stalls, func(m *stall) bool { return m.Pool.Name == pool })
	if i < 0 || s.stalls[i].Pool.Blocked != "" {
		return nil
	}
	m := s.stalls[i]
	rows := m.bearing()
	base := s.intern(m.Base, rows)
	for row := range rows.And(m.onSale()).All() {
		for range min(n-len(s.launches), s.affordable(m, row)) {
			s.launches = append(s.launches, &launch{stall: m, row: row, free: m.Room[row], joint: base})
			s.reserve(m, row)
		}
	}
	var out []Launch
	for _, l := range s.launches {
		out = append(out, s.describe(l))
	}
	return out
}

// bearing are the rows on which the DaemonSets that match them fit.
func (m *stall) bearing() bitset.Set {
	out := m.Rows.Clone()
	for row := range m.Rows.All() {
		if slices.Min(m.Room[row][:]) < 0 {
			out.Drop(row)
		}
	}
	return out
}
