// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"math/rand/v2"
	"testing"

	"github.com/karve-dev/karve/engine/bitset"
)

// TestTally compares a tally with a count for each place.
func TestTally(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var together tally
	var alone [200]int
	for range 500 {
		var places bitset.Sparse
		n := r.IntN(41) - 20
		for place := range alone {
			if r.IntN(3) == 0 {
				places.Put(place)
				alone[place] += n
			}
		}
		together.add(&places, n)
		for place, want := range alone {
			if got := together.at(place); got != want {
				t.Fatalf("place %d has %d, want %d", place, got, want)
			}
		}
	}
	if got := together.at(10_000); got != 0 {
		t.Errorf("a place without pods has %d", got)
	}
}
