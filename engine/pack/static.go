package pack

import (
	"slices"
	"sort"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/world"
)

// Static chooses n machines for a pool that keeps a fixed number of nodes,
// whatever the pods: the cheapest that meet its requirements and have room for
// their DaemonSets, over and over. Fewer come back when limits, quota or stock do
// not last, none when the pool is blocked or unknown. A machine whose choices have
// less variety than the pool's minValues ask for is not bought, or says so in
// Relaxed where the settings allow it. It spreads over nothing.
func Static(w *world.World, pool string, n int) []Launch {
	out := fixed(w, pool, n)
	if w.Settings.RelaxMinValues || !slices.ContainsFunc(out, lacks) {
		return out
	}
	// The more are bought the less is left to choose from: buy as many as keep enough.
	most := sort.Search(len(out), func(k int) bool { return slices.ContainsFunc(fixed(w, pool, k+1), lacks) })
	return fixed(w, pool, most)
}

func lacks(l Launch) bool { return len(l.Relaxed) > 0 }

// fixed is Static for n machines, whatever their variety.
func fixed(w *world.World, pool string, n int) []Launch {
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
		choices := s.choices(l)
		lacking := m.lacking(choices)
		written := s.write(l, choices)
		written.Relaxed = lacking
		out = append(out, written)
	}
	return out
}

// lacking lists the labels of which the rows have fewer values than the pool's
// minValues ask for, sorted.
func (m *stall) lacking(rows bitset.Set) []string {
	var out []string
	for _, r := range m.Pool.Requirements {
		if r.MinValues == 0 || slices.Contains(out, r.Key) {
			continue
		}
		if q, ok := m.Base.Named(r.Key); ok && m.values(q.Key, rows) < r.MinValues {
			out = append(out, r.Key)
		}
	}
	slices.Sort(out)
	return out
}

// values counts the values of the label that nodes of the rows can have.
func (m *stall) values(k *constraint.Key, rows bitset.Set) int {
	n := 0
	for _, c := range m.Cells([]*constraint.Key{k}) {
		if c.Values[0] >= 0 && c.Rows.Meets(rows) {
			n++
		}
	}
	return n
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
