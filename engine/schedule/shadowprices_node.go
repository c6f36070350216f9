// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"math"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/schedule/covering"
)

// Groups is the number of groups of pods: those of one group may use the same offerings.
func (r *ShadowPrices) Groups() int { return len(r.prices) }

// EachGroup calls f with what the reschedulable pods of the node are worth, group by group,
// under the one set of prices under which all pods together are worth most.
func (r *ShadowPrices) EachGroup(node *cluster.NodeInfo, f func(group int, worth float64)) {
	node.EachReschedulable(func(c *cluster.PodClass, pods []cluster.PodRef) {
		n, known := r.groups[c.PodShape]
		if !known {
			return
		}
		sum := 0.0
		for _, d := range c.Dims {
			sum += float64(float64(c.Requests[d]*int64(len(pods))) * r.prices[n][d])
		}
		f(n, sum)
	})
}

// WorthOfFree is the worth of the node's free capacity to pods of the group, under the same
// prices, when it is filled with their average requests.
func (r *ShadowPrices) WorthOfFree(node *cluster.NodeInfo, group int) float64 {
	share := math.Inf(1)
	sum := 0.0
	for d, n := range r.demand[group] {
		if n > 0 {
			share = min(share, float64(max(0, node.Free[d]))/float64(n))
			sum += float64(n) * r.prices[group][d]
		}
	}
	if math.IsInf(share, 1) {
		return 0
	}
	return share * sum
}

// highest is the set of prices under which all demand together is worth most.
func (r *ShadowPrices) highest(demands []*demandGroup) []covering.UnitPrices {
	var best []covering.UnitPrices
	most := -1.0
	for _, set := range r.sets {
		sum := 0.0
		for n, dg := range demands {
			sum += set[n].Worth(&dg.demand)
		}
		if sum > most {
			most, best = sum, set
		}
	}
	return best
}
