// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"math/rand/v2"
	"testing"
)

// Numbers by ID are those of a map, in any order of changes.
func TestNumbersByIDAreThoseOfAMap(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var numbers numbersByID
	want := map[int]int{}
	for range 200 {
		id, n := rnd.IntN(12), rnd.IntN(7)-3
		if had, ok := want[id]; rnd.IntN(3) == 0 {
			numbers.limit(id, n)
			if want[id] = n; ok {
				want[id] = min(had, n)
			}
		} else {
			numbers.add(id, n)
			want[id] += n
		}
		for id := -1; id < 13; id++ {
			if got := numbers.at(id); got != want[id] {
				t.Fatalf("the number of %d is %d, want %d", id, got, want[id])
			}
		}
	}
	for i := 1; i < len(numbers); i++ {
		if numbers[i-1].id >= numbers[i].id {
			t.Errorf("IDs %d and %d are out of order", numbers[i-1].id, numbers[i].id)
		}
	}
}
