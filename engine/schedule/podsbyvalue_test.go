// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"math/rand/v2"
	"testing"
)

// Counts by value are those of a map, in any order of additions.
func TestPodsByValueCountLikeAMap(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var counts podsByValue
	want := map[int]int{}
	for range 200 {
		v, n := rnd.IntN(12), rnd.IntN(7)-3
		counts.add(v, n)
		want[v] += n
	}
	for v := -1; v < 13; v++ {
		if got := counts.at(v); got != want[v] {
			t.Errorf("value %d counts %d pods, want %d", v, got, want[v])
		}
	}
	for i := 1; i < len(counts); i++ {
		if counts[i-1].value >= counts[i].value {
			t.Errorf("values %d and %d are out of order", counts[i-1].value, counts[i].value)
		}
	}
}
