// SPDX-License-Identifier: Apache-2.0

package bitset_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/karve-dev/karve/engine/bitset"
)

// TestSparse compares random sets, of a few members to hundreds, with maps.
func TestSparse(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		most := []int{3, 80, 600, 20_000}[r.IntN(4)]
		var s, other bitset.Sparse
		want := map[int]bool{}
		for step := range 300 {
			switch i := r.IntN(most); r.IntN(40) {
			case 0:
				some := randomSet(r, most)
				s.DropAll(some)
				maps.DeleteFunc(want, func(i int, _ bool) bool { return some.Has(i) })
			case 1:
				some := randomSet(r, most)
				s.Assign(some)
				want = members(some)
			case 2:
				other.Copy(&s)
				s.Clear()
				s.Put(i)
				s.Copy(&other)
			case 3:
				some := randomSet(r, most)
				s = s.In(some)
				maps.DeleteFunc(want, func(i int, _ bool) bool { return !some.Has(i) })
			case 4:
				for i := range s.All() {
					if r.IntN(4) == 0 {
						s.Drop(i)
						delete(want, i)
					}
				}
			case 5, 6, 7:
				s.Drop(i)
				delete(want, i)
			default:
				s.Put(i)
				want[i] = true
			}
			if got := slices.Collect(s.All()); !slices.Equal(got, slices.Sorted(maps.Keys(want))) || s.Len() != len(want) || s.Empty() != (len(want) == 0) {
				t.Fatalf("seed %d, step %d: %v, of length %d, want %v", seed, step, got, s.Len(), slices.Sorted(maps.Keys(want)))
			}
			if i := r.IntN(most); s.Has(i) != want[i] {
				t.Fatalf("seed %d, step %d: Has(%d) is %v", seed, step, i, s.Has(i))
			}
		}
		compareWithSet(t, seed, &s, randomSet(r, most))
	}
}

// compareWithSet compares what a Sparse does with a Set with what the same members as a Set do.
func compareWithSet(t *testing.T, seed uint64, s *bitset.Sparse, o bitset.Set) {
	t.Helper()
	var same, copied, words bitset.Set
	for i := range s.All() {
		same.Put(i)
	}
	check := func(what string, got, want bitset.Set) {
		t.Helper()
		if !got.Equal(want) {
			t.Errorf("seed %d: %s: %v, want %v", seed, what, members(got), members(want))
		}
	}
	common := same.And(o)
	merged, dropped, toggled := o.Clone(), o.Clone(), o.Clone()
	var other bitset.Sparse
	for i := range o.All() {
		other.Put(i)
	}
	for what, pair := range map[string]struct {
		got  bitset.Sparse
		want bitset.Set
	}{
		"And": {s.And(&other), common}, "In": {s.In(o), common}, "Or": {s.Or(&other), same.Or(o)}, "Minus": {s.Minus(&other), same.Minus(o)},
	} {
		var got bitset.Set
		pair.got.MergeInto(&got)
		check(what, got, pair.want)
		if equal := pair.got.Equal(s); equal != pair.want.Equal(same) {
			t.Errorf("seed %d: %s: Equal is %v", seed, what, equal)
		}
	}
	s.MergeInto(&merged)
	check("MergeInto", merged, same.Or(o))
	s.DropFrom(dropped)
	check("DropFrom", dropped, o.Minus(same))
	s.ToggleIn(&toggled)
	check("ToggleIn", toggled, same.Or(o).Minus(common))
	s.CopyTo(&copied)
	check("CopyTo", copied, same)
	if got := slices.Collect(s.AllIn(o)); !slices.Equal(got, slices.Collect(common.All())) {
		t.Errorf("seed %d: AllIn: %v, want %v", seed, got, members(common))
	}
	if got, want := slices.Collect(s.Lacking(o)), slices.Collect(o.Minus(same).All()); !slices.Equal(got, want) {
		t.Errorf("seed %d: Lacking: %v, want %v", seed, got, want)
	}
	if got := s.Intersects(o); got != same.Intersects(o) {
		t.Errorf("seed %d: Intersects is %v", seed, got)
	}
	for at, w := range s.Words() {
		if w == 0 || len(words) > at {
			t.Errorf("seed %d: word %d is %x, after %d words", seed, at, w, len(words))
		}
		words = append(words, make(bitset.Set, at-len(words))...)
		words = append(words, w)
	}
	check("Words", words, same)
}

// randomSet has up to 128 members below most.
func randomSet(r *rand.Rand, most int) (s bitset.Set) {
	for range r.IntN(129) {
		s.Put(r.IntN(most))
	}
	return s
}

func members(s bitset.Set) map[int]bool {
	out := map[int]bool{}
	for i := range s.All() {
		out[i] = true
	}
	return out
}
