// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/quantity"
)

// TestShapesLeft compares what shapesLeft finds and sums up with a walk over all groups, in the order of
// their sizes and in any other, while pods are placed.
func TestShapesLeft(t *testing.T) {
	fitting, none := 0, 0
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 0))
		groups := randomShapeGroups(r)
		left := newShapesLeft(groups)
		for range 100 {
			sg := groups[r.IntN(len(groups))]
			before, known := sg.left, len(left.placed)
			sg.left = r.IntN(sg.left + 1)
			left.note(sg)
			if placed := left.placed[known:]; sg.left < before && !slices.Equal(placed, []placedPods{{sg, before, sg.left}}) || sg.left == before && len(placed) > 0 {
				t.Fatalf("seed %d: a group has %d pods left of %d: noted as %v", seed, sg.left, before, placed)
			}
			suits, room, from, least := bitset.Set{}, randomRoom(r), r.IntN(len(groups)+1), int64(1+r.IntN(5))
			for i := range groups {
				if r.IntN(3) > 0 {
					suits.Put(i)
				}
			}
			want := walk(groups, from, func(i int) bool {
				return suits.Has(i) && groups[i].left > 0 && room.Holds(&groups[i].shape.Requests)
			})
			if got := left.fitting(from, len(groups), suits, &room); got != want {
				t.Fatalf("seed %d: %d is found for %v from %d, want %d", seed, got, room, from, want)
			}
			if fitting++; want < 0 {
				none++
			}
			want = walk(groups, from, func(i int) bool { return suits.Has(i) && int64(groups[i].left) >= least })
			if got := left.withPods(from, len(groups), suits, least); got != want {
				t.Fatalf("seed %d: %d has %d pods from %d, want %d", seed, got, least, from, want)
			}
			compareSum(t, seed, &left, groups)
		}
	}
	if none == 0 || none > fitting/2 {
		t.Errorf("nothing fits in %d of %d searches", none, fitting)
	}
}

// randomShapeGroups are groups of which some shapes ask for more than a room ever has, half of the
// time the largest first.
func randomShapeGroups(r *rand.Rand) []*shapeGroup {
	groups := make([]*shapeGroup, 1+r.IntN(400))
	size := func(sg *shapeGroup) int64 {
		return quantity.Size(sg.shape.Requests[quantity.CPU], sg.shape.Requests[quantity.Memory])
	}
	for i := range groups {
		shape := &cluster.PodShape{Dims: []quantity.Dim{quantity.Pods}}
		shape.Requests[quantity.Pods] = 1
		for d, unit := range map[quantity.Dim]int64{quantity.CPU: 1, quantity.Memory: 4 << 20} {
			if r.IntN(4) > 0 {
				shape.Requests[d] = unit * int64(1+r.IntN(5000))
				shape.Dims = append(shape.Dims, d)
			}
		}
		groups[i] = &shapeGroup{shape: shape, left: r.IntN(6)}
	}
	if r.IntN(2) == 0 {
		slices.SortFunc(groups, func(a, b *shapeGroup) int { return int(size(b) - size(a)) })
	}
	return groups
}

// randomRoom may lack a resource, or have less than none.
func randomRoom(r *rand.Rand) (room quantity.Vector) {
	room[quantity.CPU], room[quantity.Memory] = int64(r.IntN(4000)-100), (4<<20)*int64(r.IntN(4000)-100)
	room[quantity.Pods] = int64(r.IntN(20))
	return room
}

func walk(groups []*shapeGroup, from int, f func(int) bool) int {
	for i := from; i < len(groups); i++ {
		if f(i) {
			return i
		}
	}
	return -1
}

func compareSum(t *testing.T, seed uint64, left *shapesLeft, groups []*shapeGroup) {
	t.Helper()
	var wantSum, wantLargest quantity.Vector
	want := 0
	for _, sg := range groups {
		if sg.left == 0 {
			continue
		}
		want++
		for _, d := range sg.shape.Dims {
			wantSum[d] += int64(sg.left) * sg.shape.Requests[d]
			wantLargest[d] = max(wantLargest[d], sg.shape.Requests[d])
		}
	}
	if sum, largest, n := left.sum(); sum != wantSum || largest != wantLargest || n != want {
		t.Fatalf("seed %d: %d groups ask for %v, at most %v; want %d, %v, %v", seed, n, sum, largest, want, wantSum, wantLargest)
	}
}
