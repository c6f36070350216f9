package pack

import (
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/offer"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/world"
)

// stall is a market during one Solve.
type stall struct {
	*world.Market
	left      quantity.Vector // of the pool's limits
	nodesLeft int             // negative means no limit
	bought    bitset.Set      // rows of which a machine is being bought
	// pods counts those that are bought room for, by shape, and crowded those of them
	// that keep apart, by counter: see lowerBound.
	pods    map[*world.Shape]int
	crowded map[int]apartness
	base    *joint
	known   bitset.Set             // see known
	sale    bitset.Set             // see onSale
	scarce  bitset.Set             // see scarce
	bySize  map[quantity.Dim][]int // see descending
	haggle  *haggle                // nil without minValues
}

// fitKey names what a shape can use of a market within a cell.
type fitKey struct {
	market *world.Market
	shape  *world.Shape
	cell   string
}

// fit is Market.Fit narrowed to the part's cell.
func (s *solver) fit(m *stall, p *part) *world.Fit {
	whole := m.Fit(p.Shape)
	if p.cell == nil {
		return whole
	}
	key, fits := fitKey{m.Market, p.Shape, p.cell.key}, s.fits
	if len(p.sieves) == 0 {
		fits = s.bargain.fits
	}
	if f := fits[key]; f != nil {
		return f
	}
	var here bitset.Set
	for _, c := range m.Cells(p.cell.Keys) {
		if !slices.Equal(c.Values, p.cell.Values) {
			continue
		}
		for _, at := range s.sides(p.work, m, c.Rows) {
			if at.name == p.cell.side {
				here = at.rows
			}
		}
	}
	f := &world.Fit{All: whole.All.And(here), Shut: whole.Shut}
	for i := range whole.Rows {
		f.Rows = append(f.Rows, whole.Rows[i].And(here))
		f.Admitted = append(f.Admitted, whole.Admitted[i].And(here))
	}
	fits[key] = f
	return f
}

// affordable is how many copies of row the pool's limits and the region's
// budgets still allow.
func (s *solver) affordable(m *stall, row int) int {
	n := s.payable(m.Catalog.Rows[row].Price)
	if m.nodesLeft >= 0 {
		n = min(n, m.nodesLeft)
	}
	if m.varied() && m.haggle.most >= 0 {
		n = min(n, m.haggle.most)
	}
	if !m.withinLimits(row) {
		return 0
	}
	capacity := &m.Catalog.Capacity[m.Catalog.Rows[row].Type]
	for _, d := range m.Limited {
		if capacity[d] > 0 {
			n = min(n, int(min(m.left[d]/capacity[d], 1<<30)))
		}
	}
	for _, d := range m.Catalog.Rows[row].Draws {
		if left, ok := s.budgets[d.Budget]; ok && d.Amount > 0 {
			n = min(n, int(max(0, min(left/d.Amount, 1<<30))))
		}
	}
	return n
}

// withinLimits reports whether one more node of row keeps the pool within its
// limits. A pool that is over a limit buys nothing, even of types without that
// resource: upstream refuses likewise, and an operator who lowered a limit means it.
func (m *stall) withinLimits(row int) bool {
	if m.nodesLeft == 0 {
		return false
	}
	capacity := &m.Catalog.Capacity[m.Catalog.Rows[row].Type]
	for _, d := range m.Limited {
		if m.left[d] < 0 || capacity[d] > m.left[d] {
			return false
		}
	}
	return m.uncounted(row) == nil
}

// uncounted is the limit without a count that keeps the row from being bought; nil when
// there is none.
func (m *stall) uncounted(row int) *world.Uncounted {
	for i := range m.Uncounted {
		if u := &m.Uncounted[i]; u.Rows.Has(row) {
			return u
		}
	}
	return nil
}

// reserve takes one node of row out of limits and budgets.
func (s *solver) reserve(m *stall, row int) {
	s.pay(m.Catalog.Rows[row].Price)
	if m.nodesLeft > 0 {
		m.nodesLeft--
	}
	m.bought.Put(row)
	m.left = m.left.Sub(m.Catalog.Capacity[m.Catalog.Rows[row].Type])
	s.draw(&m.Catalog.Rows[row], 1)
}

// drawable reports whether the budgets have room for one of row, given back what
// the chosen row of the same launch has reserved.
func (s *solver) drawable(row *offer.Row, reserved []offer.Draw) bool {
	for _, d := range row.Draws {
		left, ok := s.budgets[d.Budget]
		if !ok {
			continue
		}
		for _, r := range reserved {
			if r.Budget == d.Budget {
				left += r.Amount
			}
		}
		if d.Amount > left {
			return false
		}
	}
	return true
}
