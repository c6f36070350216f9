package schedule

import (
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
)

// poolState is a pool catalog during one attempt.
type poolState struct {
	*cluster.PoolCatalog
	left      quantity.Vector // of the pool's limits
	nodesLeft int             // negative means no limit
	bought    bitset.Set      // offerings of which a node is being launched
	// pods counts the pods that nodes are launched for, by shape. crowded counts those of
	// them limited per node, by counter: see lowerBound.
	pods      map[*cluster.PodShape]int
	crowded   map[int]apartness
	base      *nodeRequirements
	known     bitset.Set             // see known
	sale      bitset.Set             // see onSale
	scarce    bitset.Set             // see scarce
	bySize    map[quantity.Dim][]int // see descending
	minValues *minValuesState        // nil without minValues
}

// fitKey names what a shape can use of a pool within a cell.
type fitKey struct {
	market *cluster.PoolCatalog
	shape  *cluster.PodShape
	cell   string
}

// fit is PoolCatalog.Compatible narrowed to the allotment's cell.
func (s *solver) fit(m *poolState, p *allotment) *cluster.Compatible {
	whole := m.Compatible(p.PodShape)
	if p.cell == nil {
		return whole
	}
	key, fits := fitKey{m.PoolCatalog, p.PodShape, p.cell.key}, s.compatible
	if len(p.spreadFilters) == 0 {
		fits = s.search.fits
	}
	if f := fits[key]; f != nil {
		return f
	}
	var here bitset.Set
	for _, c := range m.Cells(p.cell.Keys) {
		if !slices.Equal(c.Values, p.cell.Values) {
			continue
		}
		for _, at := range s.partitions(p.podGroup, m, c.Offerings) {
			if at.name == p.cell.partition {
				here = at.rows
			}
		}
	}
	f := &cluster.Compatible{All: whole.All.And(here), PortsTaken: whole.PortsTaken}
	for i := range whole.Fitting {
		f.Fitting = append(f.Fitting, whole.Fitting[i].And(here))
		f.Admitted = append(f.Admitted, whole.Admitted[i].And(here))
	}
	fits[key] = f
	return f
}

// affordable is how many more nodes of the offering the pool's limits and the quota still
// allow.
func (s *solver) affordable(m *poolState, row int) int {
	n := s.payable(m.Catalog.Offerings[row].Price)
	if m.nodesLeft >= 0 {
		n = min(n, m.nodesLeft)
	}
	if m.varied() && m.minValues.most >= 0 {
		n = min(n, m.minValues.most)
	}
	if !m.withinLimits(row) {
		return 0
	}
	capacity := &m.Catalog.Capacity[m.Catalog.Offerings[row].Type]
	for _, d := range m.Limited {
		if capacity[d] > 0 {
			n = min(n, int(min(m.left[d]/capacity[d], 1<<30)))
		}
	}
	for _, d := range m.Catalog.Offerings[row].QuotaUses {
		if left, ok := s.budgets[d.Quota]; ok && d.Amount > 0 {
			n = min(n, int(max(0, min(left/d.Amount, 1<<30))))
		}
	}
	return n
}

// withinLimits reports whether one more node of the offering keeps the pool within its
// limits. A pool that is over a limit launches nothing, not even types without that resource:
// Karpenter refuses likewise, and an operator who lowered a limit wants no more nodes.
func (m *poolState) withinLimits(row int) bool {
	if m.nodesLeft == 0 {
		return false
	}
	capacity := &m.Catalog.Capacity[m.Catalog.Offerings[row].Type]
	for _, d := range m.Limited {
		if m.left[d] < 0 || capacity[d] > m.left[d] {
			return false
		}
	}
	return m.uncounted(row) == nil
}

// uncounted is the limit on an uncounted resource that excludes the offering; nil when there
// is none.
func (m *poolState) uncounted(row int) *cluster.Uncounted {
	for i := range m.Uncounted {
		if u := &m.Uncounted[i]; u.Rows.Has(row) {
			return u
		}
	}
	return nil
}

// reserve takes one node of the offering out of limits and quota.
func (s *solver) reserve(m *poolState, row int) {
	s.pay(m.Catalog.Offerings[row].Price)
	if m.nodesLeft > 0 {
		m.nodesLeft--
	}
	m.bought.Put(row)
	m.left = m.left.Sub(m.Catalog.Capacity[m.Catalog.Offerings[row].Type])
	s.draw(&m.Catalog.Offerings[row], 1)
}

// drawable reports whether the quota suffices for one node of the offering, when the quota
// uses in reserved are given back.
func (s *solver) drawable(row *offering.CatalogOffering, reserved []offering.QuotaUse) bool {
	for _, d := range row.QuotaUses {
		left, ok := s.budgets[d.Quota]
		if !ok {
			continue
		}
		for _, r := range reserved {
			if r.Quota == d.Quota {
				left += r.Amount
			}
		}
		if d.Amount > left {
			return false
		}
	}
	return true
}
