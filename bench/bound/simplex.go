// SPDX-License-Identifier: Apache-2.0

package bound

import "math"

// tableau is a simplex dictionary of: maximise gain·x so that a·x ≤ rhs for every row and x ≥ 0. Each
// basic variable is its rhs minus a combination of the free ones (Chvátal, Linear Programming, chapters 2
// and 3). Variables below vars are the x, the others the slacks of the rows.
type tableau struct {
	vars        int
	basic, free []int
	a           [][]float64 // [basic][free]
	rhs         []float64
	gain        []float64 // of the objective, per free variable
	value       float64
}

func newTableau(vars int) *tableau {
	return &tableau{vars: vars, free: indices(vars), gain: make([]float64, vars)}
}

const tiny = 1e-10

// addRow adds a·x ≤ rhs.
func (t *tableau) addRow(a []float64, rhs float64) {
	row := make([]float64, len(t.free))
	at := make([]int, t.vars) // of basic variables: one more than their row
	for r, v := range t.basic {
		if v < t.vars {
			at[v] = r + 1
		}
	}
	for j, v := range t.free {
		if v < t.vars {
			row[j] += a[v]
		}
	}
	for v, r := range at {
		if r == 0 || a[v] == 0 {
			continue
		}
		rhs -= a[v] * t.rhs[r-1]
		for j, x := range t.a[r-1] {
			row[j] -= a[v] * x
		}
	}
	t.basic = append(t.basic, t.vars+len(t.basic))
	t.a = append(t.a, row)
	t.rhs = append(t.rhs, rhs)
}

// primal pivots to the optimum from a dictionary whose rhs are not negative. After many pivots it
// follows Bland's rule, with which no cycle is possible.
func (t *tableau) primal() {
	for pivots := 0; ; pivots++ {
		col := -1
		for j, g := range t.gain {
			if g <= tiny {
				continue
			}
			if col < 0 || pivots < 50*len(t.basic) && g > t.gain[col] || pivots >= 50*len(t.basic) && t.free[j] < t.free[col] {
				col = j
			}
		}
		if col < 0 {
			return
		}
		row, least := -1, math.Inf(1)
		for i := range t.a {
			if t.a[i][col] <= tiny {
				continue
			}
			ratio := t.rhs[i] / t.a[i][col]
			if ratio < least || ratio == least && t.basic[i] < t.basic[row] {
				row, least = i, ratio
			}
		}
		if row < 0 {
			return // unbounded: not with a column for each group
		}
		t.pivot(row, col)
	}
}

// dual pivots to the optimum from a dictionary whose gains are not positive: rows were added that the
// last optimum does not meet. It stops after many pivots.
func (t *tableau) dual() {
	for range 50 * (len(t.basic) + t.vars) {
		row := -1
		for i, b := range t.rhs {
			if b < -tiny && (row < 0 || b < t.rhs[row]) {
				row = i
			}
		}
		if row < 0 {
			return
		}
		col, least := -1, math.Inf(1)
		for j, x := range t.a[row] {
			if x >= -tiny {
				continue
			}
			ratio := t.gain[j] / x
			if ratio < least || ratio == least && t.free[j] < t.free[col] {
				col, least = j, ratio
			}
		}
		if col < 0 {
			return
		}
		t.pivot(row, col)
	}
}

func (t *tableau) pivot(row, col int) {
	r := t.a[row]
	p := r[col]
	for j := range r {
		r[j] /= p
	}
	r[col] = 1 / p
	t.rhs[row] /= p
	for i := range t.a {
		f := t.a[i][col]
		if i == row || f == 0 {
			continue
		}
		for j, x := range r {
			t.a[i][j] -= f * x
		}
		t.a[i][col] = -f / p
		t.rhs[i] -= f * t.rhs[row]
	}
	g := t.gain[col]
	for j, x := range r {
		t.gain[j] -= g * x
	}
	t.gain[col] = -g / p
	t.value += g * t.rhs[row]
	t.basic[row], t.free[col] = t.free[col], t.basic[row]
}

// dualOf is the shadow price of a row.
func (t *tableau) dualOf(row int) float64 {
	for j, v := range t.free {
		if v == t.vars+row {
			return -t.gain[j]
		}
	}
	return 0
}

// x is the value of a variable.
func (t *tableau) x(v int) float64 {
	for i, b := range t.basic {
		if b == v {
			return t.rhs[i]
		}
	}
	return 0
}

// master is the dual of the configuration linear program with some of its columns: prices of pods under
// which none of these is worth more than it costs, and under which all pods are worth most. Its
// variables are what all pods of a group are worth.
type master struct {
	*tableau
	pods   []float64 // by group
	solved bool
}

func newMaster(groups []Group) *master {
	m := &master{tableau: newTableau(len(groups))}
	for i, g := range groups {
		m.pods = append(m.pods, float64(g.Pods))
		m.gain[i] = 1
	}
	return m
}

func (m *master) add(c column) {
	row := make([]float64, len(c.counts))
	for g, n := range c.counts {
		row[g] = float64(n) / m.pods[g]
	}
	m.addRow(row, c.price)
}

func (m *master) solve() {
	if !m.solved {
		m.solved = true
		m.primal()
		return
	}
	m.dual()
}

// prices are the prices of one pod of each group.
func (m *master) prices() []float64 {
	out := make([]float64, len(m.pods))
	for g, n := range m.pods {
		out[g] = max(0, m.x(g)) / n
	}
	return out
}
