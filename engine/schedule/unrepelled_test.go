// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"math/rand/v2"
	"testing"

	"github.com/karve-dev/karve/engine/bitset"
)

// TestUnrepelled compares the sets with a look at each allotment, while nodes are filled and
// allotments are placed.
func TestUnrepelled(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		terms, allotments := randomRepelled(r)
		u := newUnrepelled(allotments, terms)
		if u == nil {
			t.Fatalf("seed %d: no sets where each allotment may be kept away by many selectors", seed)
		}
		for range 5 {
			on := &residents{}
			addRandom := func() *nodeRules {
				rules := &allotments[r.IntN(len(allotments))].group.nodeRules
				on.add(rules)
				return rules
			}
			if r.IntN(2) == 0 {
				addRandom()
			}
			u.begin(on)
			for range 3 {
				compareWithEach(t, seed, u, on, allotments)
				u.add(addRandom())
			}
			compareWithEach(t, seed, u, on, allotments)
			allotments[r.IntN(len(allotments))].placed = 1
			u.dropPlaced()
		}
	}
}

// randomRepelled makes allotments of one pod each, some of which never are kept away, and returns the IDs of the
// selectors of anti-affinity terms.
func randomRepelled(r *rand.Rand) (terms bitset.Set, allotments []*allotment) {
	for s := range 150 {
		if r.IntN(8) > 0 {
			terms.Put(s)
		}
	}
	for i := range 40 + r.IntN(100) {
		g := &podGroup{}
		for s := range 160 {
			if r.IntN(2) == 0 {
				g.nodeRules.selectedBy.Put(s)
			}
			if r.IntN(60) == 0 && terms.Has(s) {
				g.nodeRules.repels = append(g.nodeRules.repels, s)
			}
		}
		g.nodeRules.mayBeRepelled = r.IntN(10) > 0
		allotments = append(allotments, &allotment{group: g, wanted: 1, order: 2 * i})
	}
	return terms, allotments
}

func compareWithEach(t *testing.T, seed uint64, u *unrepelled, on *residents, allotments []*allotment) {
	t.Helper()
	order := -1
	for _, a := range allotments {
		if rules := &a.group.nodeRules; a.left() == 0 || rules.mayBeRepelled && rules.selectedBy.Intersects(on.repels) {
			continue
		}
		got := u.after(order)
		if got != a {
			t.Fatalf("seed %d: after %d comes %+v, want the allotment of order %d", seed, order, got, a.order)
		}
		order = a.order
	}
	if got := u.after(order); got != nil {
		t.Fatalf("seed %d: after the last comes the allotment of order %d", seed, got.order)
	}
}
