package pack

import (
	"math"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/offer"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/world"
)

// lowerBound sums, over the weights of pools, the least that the pods bought for at
// that weight can cost there: the fractional covering of what they ask for, by as
// many machines as those that keep apart need.
func (s *solver) lowerBound() offer.Price {
	var sum float64
	for _, tier := range s.tiers() {
		demand, machines := s.launched(tier)
		if demand.IsZero() {
			continue
		}
		cost, _, _ := shadow(demand, machines, s.sold(tier))
		sum += cost
	}
	// The simplex rounds; a bound must not.
	return offer.Price(math.Floor(sum * (1 - 1e-9) * 1e9))
}

// launched is what the pods of the tier's launches ask for, and how many machines
// they need at least because they keep apart.
func (s *solver) launched(tier []*stall) (quantity.Vector, int) {
	var demand quantity.Vector
	for _, l := range s.launches {
		if slices.Contains(tier, l.stall) {
			demand = demand.Add(l.used)
		}
	}
	return demand, 0
}

// sold are the machines that a launched class could have got from the tier.
func (s *solver) sold(tier []*stall) []shape {
	var shapes []shape
	for _, m := range tier {
		var rows bitset.Set
		seen := map[*world.Shape]bool{}
		for _, k := range s.work {
			of := k.Class.Shape // without preferences: they cost, they do not bind
			if k.placed > 0 && k.Class.Refused == "" && !seen[of] {
				seen[of] = true
				rows.Merge(m.Fit(of, s.w).All)
			}
		}
		shapes = append(shapes, m.distinctShapes(rows.And(m.onSale()))...)
	}
	return shapes
}

// distinctShapes leaves out rows of a type that is there for less already.
func (m *stall) distinctShapes(rows bitset.Set) []shape {
	var out []shape
	at := make([]int, len(m.Catalog.Types)) // one more than the index in out
	for row := range rows.All() {
		t := m.Catalog.Rows[row].Type
		if at[t] > 0 && out[at[t]-1].room == m.Room[row] {
			continue
		}
		out = append(out, shape{m.Room[row], m.Catalog.Rows[row].Price.USD()})
		at[t] = len(out)
	}
	return out
}

// shape is one machine as the covering problem sees it.
type shape struct {
	room  quantity.Vector
	price float64 // per hour, any unit
}

// shadow solves the fractional covering problem: buy any fractions of shapes so
// that their rooms add up to demand, and they to a number of machines, for the
// least money. It returns the least cost, a lower bound for any real purchase, and
// the shadow prices of one base unit of each resource and of one machine, which
// are what the planner steers by.
//
// It is the dual linear program, max Σ demand·λ + machines·μ so that
// room·λ + μ ≤ price for every shape and λ, μ ≥ 0, by the simplex method in dictionary form with Bland's rule
// (Chvátal, Linear Programming, chapters 2 and 3). The slack basis is feasible as
// prices are not negative. Every product is rounded before it is added, so that
// no machine may fuse the two and answer differently.
func shadow(demand quantity.Vector, machines int, shapes []shape) (cost float64, lambda [quantity.Dims]float64, mu float64) {
	var dims []int
	for d, n := range demand {
		if n > 0 {
			dims = append(dims, d)
		}
	}
	if len(dims) == 0 || len(shapes) == 0 {
		return 0, lambda, 0
	}
	t := newTableau(demand, machines, shapes, dims)
	if !t.solve() {
		return 0, lambda, 0 // some resource is offered by no shape: no bound
	}
	for row, v := range t.basic {
		switch {
		case v < len(dims):
			d := dims[v]
			lambda[d] = t.rhs[row] / float64(demand[d])
		case v == len(dims):
			mu = t.rhs[row] / float64(max(1, machines))
		}
	}
	return t.value, lambda, mu
}

// tableau is a simplex dictionary: each basic variable is rhs minus a
// combination of the free ones. Variables below the number of dims are the
// (scaled) shadow prices of resources, the next one that of machines, the others
// the slacks of shapes.
type tableau struct {
	basic, free []int
	a           [][]float64 // [basic][free]
	rhs         []float64
	gain        []float64 // of the objective, per free variable
	value       float64
}

// newTableau scales each λ by the demand, so that every gain starts as 1. Room
// beyond all of the demand is none: machines are whole, so the bound stays one, and
// numbers that stand for "no limit" would swamp the others.
func newTableau(demand quantity.Vector, machines int, shapes []shape, dims []int) *tableau {
	t := &tableau{}
	width := len(dims)
	if machines > 0 {
		width++
	}
	for i := range width {
		t.free = append(t.free, i)
		t.gain = append(t.gain, 1)
	}
	cells := make([]float64, len(shapes)*width)
	for i, s := range shapes {
		row := cells[i*width : (i+1)*width]
		for j, d := range dims {
			row[j] = float64(min(max(0, s.room[d]), demand[d])) / float64(demand[d])
		}
		if machines > 0 {
			row[len(dims)] = 1 / float64(machines)
		}
		t.basic = append(t.basic, len(dims)+1+i)
		t.a = append(t.a, row)
		t.rhs = append(t.rhs, s.price)
	}
	return t
}

const tiny = 1e-12

// solve pivots to the optimum; false means that it is unbounded.
func (t *tableau) solve() bool {
	for {
		col := t.entering()
		if col < 0 {
			return true
		}
		row := t.leaving(col)
		if row < 0 {
			return false
		}
		t.pivot(row, col)
	}
}

// entering picks the free variable of the lowest number that still gains: with
// the same rule in leaving no cycle is possible.
func (t *tableau) entering() int {
	best := -1
	for j, g := range t.gain {
		if g > tiny && (best < 0 || t.free[j] < t.free[best]) {
			best = j
		}
	}
	return best
}

func (t *tableau) leaving(col int) int {
	best, least := -1, math.Inf(1)
	for i := range t.a {
		if t.a[i][col] <= tiny {
			continue
		}
		ratio := t.rhs[i] / t.a[i][col]
		if ratio < least || ratio == least && t.basic[i] < t.basic[best] {
			best, least = i, ratio
		}
	}
	return best
}

func (t *tableau) pivot(row, col int) {
	p := t.a[row][col]
	for j := range t.a[row] {
		t.a[row][j] /= p
	}
	t.a[row][col] = 1 / p
	t.rhs[row] /= p
	for i := range t.a {
		if i == row || t.a[i][col] == 0 {
			continue
		}
		f := t.a[i][col]
		for j := range t.a[i] {
			t.a[i][j] -= float64(f * t.a[row][j])
		}
		t.a[i][col] = -f / p
		t.rhs[i] = math.Max(0, t.rhs[i]-float64(f*t.rhs[row]))
	}
	g := t.gain[col]
	for j := range t.gain {
		t.gain[j] -= float64(g * t.a[row][j])
	}
	t.gain[col] = -g / p
	t.value += float64(g * t.rhs[row])
	t.basic[row], t.free[col] = t.free[col], t.basic[row]
}
