// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"math"
	"slices"
)

// linearProgram is the linear program that divides nodes among patterns: the least cost for
// columns that together have at least, or at most, so much in each row. It is the revised simplex
// method on an explicit inverse, for a few dozen rows.
type linearProgram struct {
	rhs     []float64
	atMost  []bool      // by row: at most that
	cols    [][]float64 // patterns, after one column for the excess or shortage of each row
	costs   []float64
	basis   []int // by row; -1 for help, which is too expensive to be kept
	inverse [][]float64
	at      []float64 // values of the basis
}

// artificialCost is the cost of a unit of any demand where no filling covers it: more than any
// node.
const artificialCost = 100

const eps = 1e-10

func newLinearProgram(rhs []float64, most []bool) *linearProgram {
	m := &linearProgram{rhs: rhs, atMost: most, at: slices.Clone(rhs)}
	for i := range rhs {
		unit, slack, basic := make([]float64, len(rhs)), make([]float64, len(rhs)), -1
		unit[i], slack[i] = 1, -1
		if most[i] {
			slack[i], basic = 1, i
		}
		m.cols, m.costs = append(m.cols, slack), append(m.costs, 0)
		m.inverse, m.basis = append(m.inverse, unit), append(m.basis, basic)
	}
	return m
}

func (m *linearProgram) add(col []float64, cost float64) {
	m.cols, m.costs = append(m.cols, col), append(m.costs, cost)
}

func (m *linearProgram) cost(row int) float64 {
	if m.basis[row] < 0 {
		return artificialCost
	}
	return m.costs[m.basis[row]]
}

// duals are the cost of one more in each row now: never negative where at least something
// is asked for, nor positive where at most.
func (m *linearProgram) duals() []float64 {
	out := m.prices()
	for i := range out {
		if m.atMost[i] {
			out[i] = min(0, out[i])
		} else {
			out[i] = max(0, out[i])
		}
	}
	return out
}

// steps bounds pivots between two searches for patterns, as ties may cause cycles.
const steps = 500

// optimize exchanges columns while that saves money.
func (m *linearProgram) optimize() {
	for range steps {
		value := m.prices()
		best, least := -1, -1e-9
		for j, col := range m.cols {
			reduced := m.costs[j]
			for i, x := range col {
				if x != 0 {
					reduced -= value[i] * x
				}
			}
			if reduced < least {
				best, least = j, reduced
			}
		}
		if best < 0 || !m.enter(best) {
			return
		}
	}
}

// prices are the duals before signs are corrected.
func (m *linearProgram) prices() []float64 {
	out := make([]float64, len(m.rhs))
	for row := range m.basis {
		if c := m.cost(row); c != 0 {
			for i, x := range m.inverse[row] {
				out[i] += c * x
			}
		}
	}
	return out
}

// enter brings a column into the basis in place of the first that it drives out.
func (m *linearProgram) enter(j int) bool {
	dir := make([]float64, len(m.rhs))
	for row, inv := range m.inverse {
		for i, x := range m.cols[j] {
			dir[row] += inv[i] * x
		}
	}
	out, least := -1, math.Inf(1)
	for row, d := range dir {
		if d > eps && m.at[row]/d < least {
			out, least = row, m.at[row]/d
		}
	}
	if out < 0 {
		return false
	}
	m.pivot(j, out, dir)
	return true
}

func (m *linearProgram) pivot(j, out int, dir []float64) {
	p := dir[out]
	for i := range m.inverse[out] {
		m.inverse[out][i] /= p
	}
	m.at[out] /= p
	for row := range m.inverse {
		if f := dir[row]; row != out && f != 0 {
			for i, x := range m.inverse[out] {
				m.inverse[row][i] -= f * x
			}
			m.at[row] = max(0, m.at[row]-f*m.at[out])
		}
	}
	m.basis[out] = j
}
