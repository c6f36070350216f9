// SPDX-License-Identifier: Apache-2.0

package quantity_test

import (
	"math"
	"testing"

	"github.com/karve-dev/karve/engine/quantity"
)

func TestCountFittingIsRepeatedHolds(t *testing.T) {
	room := quantity.Vector{quantity.CPU: 3900, quantity.Memory: 14 << 30, quantity.Pods: 110}
	ask := quantity.Vector{quantity.CPU: 500, quantity.Memory: 3 << 30, quantity.Pods: 1}
	n := room.CountFitting(&ask)
	if n != 4 {
		t.Errorf("fits %d times, want 4", n)
	}
	all, more := ask.Times(n), ask.Times(n+1)
	if !room.Holds(&all) || room.Holds(&more) {
		t.Error("Holds and Fits disagree")
	}
}

// TestNothingOverflows (Rule POD-5): a typo of an exabyte saturates. It must not wrap around
// and make a pod that fits anywhere.
func TestNothingOverflows(t *testing.T) {
	huge := quantity.Vector{quantity.Memory: quantity.Most}
	for _, v := range []quantity.Vector{huge.Add(huge), huge.Times(math.MaxInt32), huge.Add(huge.Times(9))} {
		if v[quantity.Memory] != quantity.Most {
			t.Errorf("memory is %d, want %d", v[quantity.Memory], quantity.Most)
		}
	}
	a := quantity.Amounts{"memory": math.MaxInt64}
	if got := a.Add(a)["memory"]; got <= 0 {
		t.Errorf("sum of two maxima is %d", got)
	}
	if got := (quantity.Amounts{}).Sub(a).Sub(a)["memory"]; got >= 0 {
		t.Errorf("difference is %d", got)
	}
	room := quantity.Vector{quantity.Memory: 1 << 40}
	if room.CountFitting(&huge) != 0 {
		t.Error("an exabyte fits a terabyte")
	}
}

// TestSum: Sum is Add and Times of one resource.
func TestSum(t *testing.T) {
	amounts := []int64{0, 1, 7, 1 << 40, quantity.Most / 3, quantity.Most}
	for _, a := range amounts {
		for _, b := range amounts {
			for _, n := range []int{0, 1, 2, 3, 1 << 30} {
				want := quantity.Vector{a}.Add(quantity.Vector{b}.Times(n))[0]
				if got := quantity.Sum(a, b, n); got != want {
					t.Errorf("%d and %d times %d: %d, want %d", a, n, b, got, want)
				}
			}
		}
	}
}

// To add to some resources is to add to all a vector that has only these.
func TestAddIn(t *testing.T) {
	amounts := []int64{-quantity.Most, -7, 0, 7, quantity.Most}
	for _, a := range amounts {
		for _, b := range amounts {
			v, w := quantity.Vector{a, a, a}, quantity.Vector{b, b, b}
			more, fewer := v, v
			more.AddIn([]quantity.Dim{0, 2}, &w, 1)
			fewer.AddIn([]quantity.Dim{0, 2}, &w, -1)
			w[1] = 0
			if want := v.Add(w); more != want {
				t.Errorf("%v and %v: %v, want %v", v, w, more, want)
			}
			if want := v.Sub(w); fewer != want {
				t.Errorf("%v less %v: %v, want %v", v, w, fewer, want)
			}
		}
	}
}

func TestFormat(t *testing.T) {
	for _, tc := range []struct {
		name string
		n    int64
		want string
	}{
		{"cpu", 1500, "1.5"}, {"cpu", 64000, "64"}, {"memory", 16 << 30, "16Gi"}, {"memory", 1536 << 20, "1.5Gi"},
		{"memory", 1e18, "888.2Pi"}, {"nvidia.com/gpu", 8, "8"}, {"memory", 0, "0"},
	} {
		if got := quantity.Format(tc.name, tc.n); got != tc.want {
			t.Errorf("%s %d is %q, want %q", tc.name, tc.n, got, tc.want)
		}
	}
}
