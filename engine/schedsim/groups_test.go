// SPDX-License-Identifier: Apache-2.0

package schedsim

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// The scheduler stops at the first node of a group, and at the first group, that cannot score higher:
// the nodes must stay in the order of how empty they are, and the groups in that of their emptiest
// nodes, whatever is listed, moved or removed.
func TestGroupsAreRankedByTheirEmptiestNodes(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	s := newGroups(nil)
	listed := map[*nodeGroup][]slot{}
	for at := range 2000 {
		g := s.findOrAdd(groupKey{cpu: r.Int64N(20)})
		have := listed[g]
		switch i := r.IntN(len(have) + 1); {
		case i == len(have) || r.IntN(3) == 0:
			added := slot{at: at, emptiness: float64(r.IntN(8)) / 4}
			g.insert(added)
			listed[g] = append(have, added)
		case r.IntN(2) == 0:
			after := have[i]
			after.emptiness = float64(r.IntN(8)) / 4
			g.update(have[i], after)
			have[i] = after
		default:
			g.remove(have[i])
			listed[g] = append(have[:i:i], have[i+1:]...)
		}
		for i, ranked := range s.ranks {
			inOrder := slices.SortedFunc(slices.Values(listed[ranked.group]), func(x, y slot) int {
				return cmp.Or(cmp.Compare(y.emptiness, x.emptiness), cmp.Compare(x.at, y.at))
			})
			if !slices.Equal(ranked.group.slots, inOrder) {
				t.Fatalf("seed %d, step %d: group %d lists %v; want %v", seed, at, ranked.group.number, ranked.group.slots, inOrder)
			}
			emptiest := math.Inf(-1)
			for _, x := range listed[ranked.group] {
				emptiest = max(emptiest, x.emptiness)
			}
			if ranked.emptiest != emptiest || ranked.group.rank != i || i > 0 && s.ranks[i-1].emptiest < emptiest {
				t.Fatalf("seed %d, step %d: group %d is at %d with %v; its emptiest node has %v", seed, at, ranked.group.number, i, ranked.emptiest, emptiest)
			}
		}
	}
}
