// SPDX-License-Identifier: Apache-2.0

package constraint_test

import (
	"math/rand/v2"
	"testing"

	"github.com/karve-dev/karve/engine/constraint"
)

// TestHash: sets that are equal have the same hash, and few others have.
func TestHash(t *testing.T) {
	interner := constraint.NewInterner()
	byHash := map[uint64][]constraint.Set{}
	different := 0
	for seed := range uint64(2000) {
		set := randomSet(t, interner, seed)
		known := false
		for _, other := range byHash[set.Hash()] {
			known = known || other.Equal(set)
		}
		for hash, others := range byHash {
			for _, other := range others {
				if hash != set.Hash() && other.Equal(set) {
					t.Fatalf("seed %d: two hashes of %v", seed, set.Rules())
				}
			}
		}
		if !known {
			different++
			byHash[set.Hash()] = append(byHash[set.Hash()], set)
		}
	}
	if len(byHash) < different*99/100 {
		t.Errorf("%d different sets have only %d hashes", different, len(byHash))
	}
}

// TestOn: of a conjunction, only requirements on the same labels matter for those of one of the
// sets.
func TestOn(t *testing.T) {
	interner := constraint.NewInterner()
	for seed := range uint64(2000) {
		a, b := randomSet(t, interner, seed), randomSet(t, interner, ^seed)
		all, some := a.And(b), a.On(b).And(b)
		if len(some) != len(b) {
			t.Fatalf("seed %d: %v on the labels of %v leaves %v", seed, a.Rules(), b.Rules(), some.Rules())
		}
		for _, q := range some {
			if want, _ := all.Get(q.Key); !(constraint.Set{want}).Equal(constraint.Set{q}) {
				t.Fatalf("seed %d: %v, want %v", seed, q, want)
			}
		}
	}
}

// TestReplacedAndWithout: the difference of a conjunction from one of the sets, put in place of the
// requirements there, makes it the conjunction.
func TestReplacedAndWithout(t *testing.T) {
	interner := constraint.NewInterner()
	for seed := range uint64(2000) {
		a, b := randomSet(t, interner, seed), randomSet(t, interner, ^seed)
		all := a.And(b)
		own := all.Without(a)
		if len(own) > len(b) {
			t.Errorf("seed %d: %v adds %v to %v", seed, b.Rules(), own.Rules(), a.Rules())
		}
		if got := a.Replaced(own); !got.Equal(all) {
			t.Fatalf("seed %d: %v with %v is %v, want %v", seed, a.Rules(), own.Rules(), got.Rules(), all.Rules())
		}
	}
}

// randomSet requires something of some of three labels.
func randomSet(t *testing.T, interner *constraint.Interner, seed uint64) constraint.Set {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 9))
	var rules []constraint.Rule
	for range r.IntN(4) {
		rule := randomRule(r)
		rule.Key = string(rune('a' + r.IntN(3)))
		rules = append(rules, rule)
	}
	set, err := interner.Set(rules)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	return set
}
