// SPDX-License-Identifier: Apache-2.0

package bound

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestPackingIsBounded: no pods are worth more than the upper bound, also where the search ends early, and
// the pods that are returned fit and are worth no more.
func TestPackingIsBounded(t *testing.T) {
	early := 0
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 11))
		room := []float64{60, 60}
		groups, prices := make([]Group, 30), make([]float64, 30)
		for i := range groups {
			groups[i] = Group{1 + r.IntN(3), []float64{float64(3 + r.IntN(20)), float64(3 + r.IntN(20))}, all(1), 0, nil}
			prices[i] = (groups[i].Requests[0] + groups[i].Requests[1]) / 120 * (0.9 + 0.2*r.Float64())
		}
		items := itemsOn(room, groups, func(*Group) bool { return true })
		counts, most := pack(items, room, prices, precise/2)
		worth, left := 0.0, []float64{60, 60}
		for i, n := range counts {
			worth += float64(n) * prices[items[i].group]
			for d := range left {
				left[d] -= float64(n) * groups[items[i].group].Requests[d]
			}
			if n > items[i].most {
				t.Errorf("seed %d: %d pods of %d", seed, n, items[i].most)
			}
		}
		best := exactWorth(groups, prices)
		if left[0] < 0 || left[1] < 0 || worth > best+1e-9 || most < best-1e-9 {
			t.Errorf("seed %d: pods worth %v leave %v, at most %v; the best are worth %v", seed, worth, left, most, best)
		}
		if worth < best-1e-9 {
			early++
		}
	}
	if early == 0 {
		t.Error("the best pods were found each time: the bound of what was not looked at is not tested")
	}
}

// exactWorth tries all pods in all room of 60 and 60, one pod after the other.
func exactWorth(groups []Group, prices []float64) float64 {
	var best [61][61]float64
	for g, group := range groups {
		c, m := int(group.Requests[0]), int(group.Requests[1])
		for range group.Pods {
			for i := 60; i >= c; i-- {
				for j := 60; j >= m; j-- {
					best[i][j] = math.Max(best[i][j], best[i-c][j-m]+prices[g])
				}
			}
		}
	}
	return best[60][60]
}
