// SPDX-License-Identifier: Apache-2.0

// Package simplex maximises a linear function of variables that are not negative, under rows of upper
// bounds, by the simplex method in dictionary form (Chvátal, Linear Programming, chapters 2, 3 and 10). It
// knows nothing of what variables and rows stand for: packages covering and bench/bound give them meaning.
// The programs are dense and small: some hundred variables, some thousand rows.
package simplex

import "math"

// Dictionary is a linear program on its way to the optimum. Each basic variable is its rhs minus a
// combination of the free ones; the first variables are those of the program, the others the slacks of its
// rows. Every product is rounded before it is added, so that no CPU may fuse the two operations and compute
// a different result.
type Dictionary struct {
	vars        int
	basic, free []int
	a           [][]float64 // [basic][free]
	rhs         []float64
	gain        []float64 // of the objective, per free variable
	value       float64
}

// New returns the program: maximise gain·x so that rows[i]·x ≤ rhs[i] and x ≥ 0. It keeps the slices, and
// changes them.
func New(gain []float64, rows [][]float64, rhs []float64) *Dictionary {
	d := &Dictionary{vars: len(gain), gain: gain, a: rows, rhs: rhs, free: make([]int, len(gain)), basic: make([]int, len(rows))}
	for i := range d.free {
		d.free[i] = i
	}
	for i := range d.basic {
		d.basic[i] = d.vars + i
	}
	return d
}

// AddRow adds a·x ≤ rhs; len(a) is the number of variables of the program.
func (d *Dictionary) AddRow(a []float64, rhs float64) {
	row := make([]float64, len(d.free))
	for j, v := range d.free {
		if v < d.vars {
			row[j] = a[v]
		}
	}
	for i, v := range d.basic {
		if v >= d.vars || a[v] == 0 {
			continue
		}
		rhs -= float64(a[v] * d.rhs[i])
		for j, x := range d.a[i] {
			row[j] -= float64(a[v] * x)
		}
	}
	d.basic = append(d.basic, d.vars+len(d.basic))
	d.a = append(d.a, row)
	d.rhs = append(d.rhs, rhs)
}

const tiny = 1e-12

// Maximize pivots to the optimum by Bland's rule; false means that there is none, as the function grows
// without bound. No rhs may be negative.
func (d *Dictionary) Maximize() bool {
	for {
		col := d.entering()
		if col < 0 {
			return true
		}
		row := d.leaving(col)
		if row < 0 {
			return false
		}
		d.pivot(row, col)
		for i, b := range d.rhs {
			d.rhs[i] = math.Max(0, b) // what rounding took
		}
	}
}

// entering picks the free variable of the lowest number that still gains: with
// the same rule in leaving no cycle is possible.
func (d *Dictionary) entering() int {
	best := -1
	for j, g := range d.gain {
		if g > tiny && (best < 0 || d.free[j] < d.free[best]) {
			best = j
		}
	}
	return best
}

func (d *Dictionary) leaving(col int) int {
	best, least := -1, math.Inf(1)
	for i := range d.a {
		if d.a[i][col] <= tiny {
			continue
		}
		ratio := d.rhs[i] / d.a[i][col]
		if ratio < least || ratio == least && d.basic[i] < d.basic[best] {
			best, least = i, ratio
		}
	}
	return best
}

// Restore pivots to the optimum again after rows were added that the last one does not meet: the dual
// simplex method. It stops after 50 pivots for each variable, slacks included; the solution may then still exceed
// rows.
func (d *Dictionary) Restore() {
	for range 50 * (len(d.basic) + d.vars) {
		row := d.exceeded()
		if row < 0 {
			return
		}
		col := d.replacing(row)
		if col < 0 {
			return
		}
		d.pivot(row, col)
	}
}

// exceeded picks the row that the solution exceeds most.
func (d *Dictionary) exceeded() int {
	best := -1
	for i, b := range d.rhs {
		if b < -tiny && (best < 0 || b < d.rhs[best]) {
			best = i
		}
	}
	return best
}

// replacing picks the free variable that makes up for the row at the least loss.
func (d *Dictionary) replacing(row int) int {
	best, least := -1, math.Inf(1)
	for j, x := range d.a[row] {
		if x >= -tiny {
			continue
		}
		ratio := d.gain[j] / x
		if ratio < least || ratio == least && d.free[j] < d.free[best] {
			best, least = j, ratio
		}
	}
	return best
}

func (d *Dictionary) pivot(row, col int) {
	r := d.a[row]
	p := r[col]
	for j := range r {
		r[j] /= p
	}
	r[col] = 1 / p
	d.rhs[row] /= p
	for i, other := range d.a {
		f := other[col]
		if i == row || f == 0 {
			continue
		}
		for j, x := range r {
			other[j] -= float64(f * x)
		}
		other[col] = -f / p
		d.rhs[i] -= float64(f * d.rhs[row])
	}
	g := d.gain[col]
	for j, x := range r {
		d.gain[j] -= float64(g * x)
	}
	d.gain[col] = -g / p
	d.value += float64(g * d.rhs[row])
	d.basic[row], d.free[col] = d.free[col], d.basic[row]
}

// Value is the value of the function.
func (d *Dictionary) Value() float64 { return d.value }

// X are the values of the program's variables.
func (d *Dictionary) X() []float64 {
	out := make([]float64, d.vars)
	for i, v := range d.basic {
		if v < d.vars {
			out[v] = d.rhs[i]
		}
	}
	return out
}

// ShadowPrices are by how much the value would grow if the rhs of each row were larger by one.
func (d *Dictionary) ShadowPrices() []float64 {
	out := make([]float64, len(d.basic))
	for j, v := range d.free {
		if v >= d.vars {
			out[v-d.vars] = -d.gain[j]
		}
	}
	return out
}
