// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"math/rand/v2"
	"testing"

	"github.com/karve-dev/karve/engine/constraint"
)

// TestLabelRequirements: steps on top of each other require the same as the conjunction of all, in
// whatever order they are made.
func TestLabelRequirements(t *testing.T) {
	for seed := range uint64(2000) {
		r, in := rand.New(rand.NewPCG(seed, 11)), constraint.NewInterner()
		all := randomRequirements(r, in)
		one, other := ofPool(all), ofPool(all)
		var added []constraint.Set
		for range r.IntN(8) {
			added = append(added, randomRequirements(r, in))
		}
		for i, a := range added {
			all, one, other = all.And(a), step(one, a), step(other, added[len(added)-1-i])
			if got := one.on(a); !got.Equal(all.On(a)) {
				t.Fatalf("seed %d: step %d requires %v of its labels, want %v", seed, i, got.Rules(), all.On(a).Rules())
			}
		}
		if got := one.set(); !got.Equal(all) || one.hash != all.Hash() {
			t.Fatalf("seed %d: %v is required, want %v", seed, got.Rules(), all.Rules())
		}
		if !one.equal(other) {
			t.Fatalf("seed %d: in another order %v is required, want %v", seed, other.set().Rules(), all.Rules())
		}
	}
}

// step adds requirements to those before.
func step(r *labelRequirements, added constraint.Set) *labelRequirements {
	before := r.on(added)
	return r.with(before, before.And(added))
}

// randomRequirements are requirements on up to three of six labels, with some of four values.
func randomRequirements(r *rand.Rand, in *constraint.Interner) constraint.Set {
	var out constraint.Set
	for range r.IntN(4) {
		q := in.In(string(rune('a'+r.IntN(6))), string(rune('k'+r.IntN(4))), string(rune('k'+r.IntN(4))), "z")
		out = out.And(constraint.Set{q})
	}
	return out
}
