// SPDX-License-Identifier: Apache-2.0

// Package covering solves the fractional covering problem: launch any fractions of node types
// so that their capacities add up to a demand and the fractions to a number of nodes, at the
// least cost. That cost is a lower bound for any plan with whole nodes, and the shadow prices
// say what a unit of each resource is worth in it.
package covering

import (
	"math"

	"github.com/karve-dev/karve/engine/quantity"
)

// NodeType is one node as the covering problem sees it.
type NodeType struct {
	Room  quantity.Vector
	Price float64 // per hour, any unit
}

// UnitPrices are prices of one base unit of each resource.
type UnitPrices [quantity.Dims]float64

// Worth prices a vector of resources. Resources below zero count as none.
func (u *UnitPrices) Worth(v *quantity.Vector) float64 {
	var sum float64
	for d, n := range v {
		sum += float64(float64(max(0, n)) * u[d])
	}
	return sum
}

// Prices are the shadow prices of one base unit of each resource and of one node.
type Prices struct {
	Units UnitPrices
	Node  float64
}

// Capped limits room to the demand. Nodes are whole, so the cost without the rest is still a
// bound, and numbers that stand for "no limit" would swamp the others.
func Capped(room quantity.Vector, demand *quantity.Vector) quantity.Vector {
	for d, n := range demand {
		room[d] = min(room[d], n)
	}
	return room
}

// Solve returns the least cost of covering demand with at least that many nodes, and the
// shadow prices. Both are zero when no node type offers some resource that demand asks for.
//
// It solves the dual linear program, max Σ demand·λ + nodes·μ so that room·λ + μ ≤
// price for every node type and λ, μ ≥ 0, by the simplex method in dictionary form with
// Bland's rule (Chvátal, Linear Programming, chapters 2 and 3). The slack basis is
// feasible as prices are not negative. Every product is rounded before it is added, so
// that no CPU may fuse the two operations and compute a different result.
func Solve(demand quantity.Vector, nodes int, nodeTypes []NodeType) (cost float64, prices Prices) {
	var dims []int
	for d, n := range demand {
		if n > 0 {
			dims = append(dims, d)
		}
	}
	if len(dims) == 0 || len(nodeTypes) == 0 {
		return 0, prices
	}
	t := newTableau(demand, nodes, nodeTypes, dims)
	if !t.solve() {
		return 0, prices // no node type offers some resource: no bound
	}
	for row, v := range t.basic {
		switch {
		case v < len(dims):
			d := dims[v]
			prices.Units[d] = t.rhs[row] / float64(demand[d])
		case v == len(dims):
			prices.Node = t.rhs[row] / float64(max(1, nodes))
		}
	}
	return t.value, prices
}

// tableau is a simplex dictionary: each basic variable is rhs minus a combination of the free
// ones. Variables below the number of dims are the (scaled) shadow prices of resources, the
// next one is that of nodes, the others are the slacks of node types.
type tableau struct {
	basic, free []int
	a           [][]float64 // [basic][free]
	rhs         []float64
	gain        []float64 // of the objective, per free variable
	value       float64
}

// newTableau scales each λ by the demand, so that every gain starts as 1.
func newTableau(demand quantity.Vector, nodes int, nodeTypes []NodeType, dims []int) *tableau {
	t := &tableau{}
	width := len(dims)
	if nodes > 0 {
		width++
	}
	for i := range width {
		t.free = append(t.free, i)
		t.gain = append(t.gain, 1)
	}
	cells := make([]float64, len(nodeTypes)*width)
	for i, s := range nodeTypes {
		row := cells[i*width : (i+1)*width]
		for j, d := range dims {
			row[j] = float64(max(0, s.Room[d])) / float64(demand[d])
		}
		if nodes > 0 {
			row[len(dims)] = 1 / float64(nodes)
		}
		t.basic = append(t.basic, len(dims)+1+i)
		t.a = append(t.a, row)
		t.rhs = append(t.rhs, s.Price)
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
