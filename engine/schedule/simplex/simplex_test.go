// SPDX-License-Identifier: Apache-2.0

package simplex

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestKnown: 3x + 5y where x ≤ 4, 2y ≤ 12 and 3x + 2y ≤ 18 is 36 at (2, 6); the shadow prices are 0, 3/2 and
// 1 (Hillier and Lieberman's example).
func TestKnown(t *testing.T) {
	d := New([]float64{3, 5}, [][]float64{{1, 0}, {0, 2}, {3, 2}}, []float64{4, 12, 18})
	if !d.Maximize() || !near(d.Value(), 36) || !all(d.X(), 2, 6) || !all(d.ShadowPrices(), 0, 1.5, 1) {
		t.Errorf("%v at %v, shadow prices %v", d.Value(), d.X(), d.ShadowPrices())
	}
	d.AddRow([]float64{1, 1}, 6) // cuts (2, 6) off: (0, 6)
	if d.Restore(); !near(d.Value(), 30) || !all(d.X(), 0, 6) {
		t.Errorf("with one row more %v at %v", d.Value(), d.X())
	}
}

func TestUnbounded(t *testing.T) {
	if d := New([]float64{1, 1}, [][]float64{{1, -1}}, []float64{4}); d.Maximize() {
		t.Errorf("the maximum is %v, want none", d.Value())
	}
}

// TestLaterRows: rows that are added one after the other give the same optimum as rows that were there from
// the start, and the shadow prices prove it: they cover every gain, and the rhs are worth the value.
func TestLaterRows(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 9))
		vars := 1 + r.IntN(6)
		gain := make([]float64, vars)
		var rows [][]float64
		var rhs []float64
		for i := range vars { // bound each variable
			gain[i] = 0.5 + r.Float64()
			row := make([]float64, vars)
			row[i] = 1
			rows, rhs = append(rows, row), append(rhs, 1+r.Float64())
		}
		later := New(slices.Clone(gain), clones(rows), slices.Clone(rhs))
		later.Maximize()
		for range 8 {
			row := make([]float64, vars)
			for i := range row {
				row[i] = float64(r.IntN(4))
			}
			rows, rhs = append(rows, row), append(rhs, 0.5+2*r.Float64())
			later.AddRow(row, rhs[len(rhs)-1])
			later.Restore()
		}
		whole := New(slices.Clone(gain), clones(rows), slices.Clone(rhs))
		if !whole.Maximize() || math.Abs(whole.Value()-later.Value()) > 1e-6 {
			t.Errorf("seed %d: %v at once, %v one after the other", seed, whole.Value(), later.Value())
		}
		for _, d := range []*Dictionary{whole, later} {
			worth, cover := 0.0, make([]float64, vars)
			for i, price := range d.ShadowPrices() {
				worth += price * rhs[i]
				for v := range cover {
					cover[v] += price * rows[i][v]
				}
			}
			for v := range cover {
				if cover[v] < gain[v]-1e-6 || math.Abs(worth-d.Value()) > 1e-6 {
					t.Fatalf("seed %d: shadow prices cover %v of gains %v and are worth %v of %v", seed, cover, gain, worth, d.Value())
				}
			}
		}
	}
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func all(got []float64, want ...float64) bool {
	for i := range want {
		if len(got) != len(want) || !near(got[i], want[i]) {
			return false
		}
	}
	return true
}

func clones(of [][]float64) (out [][]float64) {
	for _, row := range of {
		out = append(out, slices.Clone(row))
	}
	return out
}
