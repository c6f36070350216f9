// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/enginetest"
)

// TestAlikePoolsShareWhatFits: what fits a shape on a pool is the same beside pools that are alike
// as in a cluster of this pool alone.
func TestAlikePoolsShareWhatFits(t *testing.T) {
	shared := 0
	for seed := range uint64(150) {
		script := enginetest.RandomFull(seed, 20)
		script.Pools = withCopies(script.Pools)
		together := script.Snapshot()
		for _, c := range together.PoolCatalogs {
			alone := *script
			alone.Pools = slices.DeleteFunc(slices.Clone(script.Pools), func(p cluster.NodePool) bool { return p.Name != c.Pool.Name })
			snapshot := alone.Snapshot()
			for i, class := range together.Classes {
				if c.FirstAlike(class.Keys) != c {
					shared++
				}
				got, want := c.Compatible(class.PodShape), snapshot.PoolCatalogs[0].Compatible(snapshot.Classes[i].PodShape)
				if !got.All.Equal(want.All) || !slices.EqualFunc(got.Admitted, want.Admitted, bitset.Set.Equal) || got.AnyPortTaken != want.AnyPortTaken {
					t.Fatalf("seed %d: pool %s, class %d: %v, want %v", seed, c.Pool.Name, i, got, want)
				}
			}
		}
	}
	if shared < 1000 {
		t.Errorf("only %d shapes and pools shared anything", shared)
	}
}

// withCopies adds pools that differ in name and in a label from those in the list.
func withCopies(pools []cluster.NodePool) []cluster.NodePool {
	out := slices.Clone(pools)
	for _, p := range pools {
		for i := range 2 {
			c := p
			c.Name = fmt.Sprint(p.Name, "-", i)
			c.Requirements = append(slices.Clone(p.Requirements), constraint.Rule{Key: "example.com/team", Operator: constraint.In, Values: []string{fmt.Sprint(i)}})
			out = append(out, c)
		}
	}
	return out
}
