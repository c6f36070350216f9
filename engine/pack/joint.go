package pack

import (
	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/world"
)

// joint is what the classes on one machine require together: their label
// requirements, and the rows on which every one of them holds. Joints are
// interned per attempt: machines that require the same share one.
type joint struct {
	set  constraint.Set
	rows bitset.Set
	// open are the rows that meet set and may be chosen, once somebody asked.
	open bitset.Set
}

// step is one class joining.
type step struct {
	from        *joint
	market      *world.Market
	shape       *world.Shape
	cell        string
	alternative int
}

// join adds the requirements of a part on the given row. It takes the first of
// the class's alternatives that holds there together with the others.
func (s *solver) join(j *joint, m *stall, row int, f *world.Fit, p *part) (*joint, bool) {
	for i, alt := range p.Alternatives {
		if !f.Rows[i].Has(row) {
			continue
		}
		if len(alt) == 0 && p.cell == nil {
			return j, true
		}
		more, at := alt, step{from: j, market: m.Market, shape: p.Shape, alternative: i}
		if p.cell != nil {
			more, at.cell = alt.And(p.cell.set), p.cell.key
		}
		if next := s.joints[at]; next != nil && !m.Several(row) {
			return next, true
		}
		if set, ok := m.Join(row, j.set, more); ok {
			next := s.intern(set, j.rows.And(f.Admitted[i]))
			if !m.Several(row) {
				s.joints[at] = next
			}
			return next, true
		}
	}
	return nil, false
}

// intern returns the joint of that set and those rows, the same one each time.
func (s *solver) intern(set constraint.Set, rows bitset.Set) *joint {
	s.key = rows.Append(s.key[:0])
	for _, j := range s.interned[string(s.key)] {
		if j.set.Equal(set) {
			return j
		}
	}
	j := &joint{set: set, rows: rows}
	s.interned[string(s.key)] = append(s.interned[string(s.key)], j)
	return j
}
