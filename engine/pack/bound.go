package pack

import (
	"math"

	"github.com/karve-dev/karve/engine/quantity"
)

// shape is one machine as the covering problem sees it.
type shape struct {
	room  quantity.Vector
	price float64 // per hour, any unit
}

// shadow solves the fractional covering problem: buy any fractions of shapes so
// that their rooms add up to demand, for the least money. It returns the least
// cost, a lower bound for any real purchase, and the shadow price of one base
// unit of each resource, which is what the planner steers by.
//
// It is the dual linear program, max Σ demand·λ so that room·λ ≤ price for every
// shape and λ ≥ 0, by the simplex method in dictionary form with Bland's rule
// (Chvátal, Linear Programming, chapters 2 and 3). The slack basis is feasible as
// prices are not negative. Every product is rounded before it is added, so that
// no machine may fuse the two and answer differently.
func shadow(demand quantity.Vector, shapes []shape) (float64, [quantity.Dims]float64) {
	var lambda [quantity.Dims]float64
	var dims []int
	for d, n := range demand {
		if n > 0 {
			dims = append(dims, d)
		}
	}
	if len(dims) == 0 || len(shapes) == 0 {
		return 0, lambda
	}
	t := newTableau(demand, shapes, dims)
	if !t.solve() {
		return 0, lambda // some resource is offered by no shape: no bound
	}
	for row, v := range t.basic {
		if v < len(dims) {
			d := dims[v]
			lambda[d] = t.rhs[row] / float64(demand[d])
		}
	}
	return t.value, lambda
}

// tableau is a simplex dictionary: each basic variable is rhs minus a
// combination of the free ones. Variables below the number of dims are the
// (scaled) shadow prices, the others the slacks of shapes.
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
func newTableau(demand quantity.Vector, shapes []shape, dims []int) *tableau {
	t := &tableau{}
	for i := range dims {
		t.free = append(t.free, i)
		t.gain = append(t.gain, 1)
	}
	for i, s := range shapes {
		row := make([]float64, len(dims))
		for j, d := range dims {
			row[j] = float64(min(max(0, s.room[d]), demand[d])) / float64(demand[d])
		}
		t.basic = append(t.basic, len(dims)+i)
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
