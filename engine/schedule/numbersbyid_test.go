// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Numbers by ID are those of a map, in any order of changes, of short lists and of long ones. Two lists
// that were made together do not grow into each other.
func TestNumbersByIDAreThoseOfAMap(t *testing.T) {
	for _, ids := range []int{5, 20, 200} {
		rnd := rand.New(rand.NewPCG(1, uint64(ids)))
		var lists [2]numbersByID
		lists[0], lists[1] = twoNumbersByID(3, 2)
		wants := [2]map[int]int{{}, {}}
		for range 300 {
			which := rnd.IntN(2)
			numbers, want := &lists[which], wants[which]
			id, n := rnd.IntN(ids), rnd.IntN(7)-3
			switch rnd.IntN(4) {
			case 0:
				numbers.limit(id, n)
				if had, ok := want[id]; ok {
					n = min(n, had)
				}
				want[id] = n
			case 1:
				each := rnd.Perm(ids)[:rnd.IntN(ids)]
				slices.Sort(each)
				numbers.addEach(each, n)
				for _, id := range each {
					want[id] += n
				}
			default:
				numbers.add(id, n)
				want[id] += n
			}
			for i := range lists {
				compareWithMap(t, lists[i], wants[i], ids)
			}
		}
	}
}

func compareWithMap(t *testing.T, numbers numbersByID, want map[int]int, ids int) {
	t.Helper()
	for id := -1; id <= ids; id++ {
		if got := numbers.at(id); got != want[id] {
			t.Fatalf("of %d IDs, the number of %d is %d, want %d", ids, id, got, want[id])
		}
	}
	if len(numbers) != len(want) {
		t.Fatalf("of %d IDs, %d have a number, want %d", ids, len(numbers), len(want))
	}
	for i := 1; i < len(numbers); i++ {
		if numbers[i-1].id >= numbers[i].id {
			t.Fatalf("of %d IDs, %d and %d are out of order", ids, numbers[i-1].id, numbers[i].id)
		}
	}
}
