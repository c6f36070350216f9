// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"cmp"
	"math"
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/schedule/covering"
)

// ShadowPrices say what pods are worth in the pools that nodes would be launched from: no
// available nodes that hold the pods cost less. The rest of a node's price is waste.
//
// For each group of pods that may use the same offerings, they are a price λ per unit of each
// resource such that λ·room ≤ price holds for every offering and what the pods ask for is
// worth as much as possible (see package covering). Where groups share offerings, the prices of the
// cheaper group are lowered to those of the more expensive one (see boundByGroup), so that
// mixed content is not worth more than the node either. There is a set of prices for each of a
// few proportions of memory to the other resources, as content differs in that. Each set
// bounds the cost of any content from below, so the largest bound holds.
//
// They do not take into account limits, quota, weights of pools, other pods, or free capacity
// on nodes.
type ShadowPrices struct {
	groups map[*cluster.PodShape]int
	sets   [][]covering.UnitPrices // by proportion and group: USD/h per base unit
	demand []quantity.Vector       // by group
	prices []covering.UnitPrices   // the set under which all pods together are worth most
}

// proportions are the factors by which the requested memory is scaled before prices are
// found.
func proportions() []float64 { return []float64{0.125, 0.25, 0.5, 1, 2, 4, 8} }

// NewShadowPrices finds the prices for the reschedulable pods of the nodes.
func NewShadowPrices(snapshot *cluster.Snapshot, nodes []*cluster.NodeInfo) *ShadowPrices {
	r := &ShadowPrices{groups: map[*cluster.PodShape]int{}}
	var pools []*poolState
	for _, m := range snapshot.PoolCatalogs {
		if m.Pool.Blocked == "" && !m.Pool.Static {
			pools = append(pools, &poolState{PoolCatalog: m})
		}
	}
	demands := r.group(pools, nodes)
	var demand quantity.Vector
	for _, dg := range demands {
		demand = demand.Add(dg.demand)
		r.demand = append(r.demand, dg.demand)
	}
	nodeTypesByGroup := make([][]covering.NodeType, len(demands))
	for i, dg := range demands {
		nodeTypesByGroup[i] = nodeTypes(pools, dg.rows, &demand)
	}
	for _, p := range proportions() {
		r.sets = append(r.sets, prices(demands, nodeTypesByGroup, demand, p))
	}
	r.prices = r.highest(demands)
	return r
}

// group groups the pods of the nodes by the offerings that they may use.
func (r *ShadowPrices) group(pools []*poolState, nodes []*cluster.NodeInfo) []*demandGroup {
	var out []*demandGroup
	by := map[string]int{}
	var key []byte
	for _, node := range nodes {
		node.EachReschedulable(func(c *cluster.PodClass, pods []cluster.PodRef) {
			n, known := r.groups[c.PodShape]
			if !known {
				key = key[:0]
				for _, pool := range pools {
					key = append(pool.Admitting(c.PodShape).And(pool.available()).Append(key), '|')
				}
				if n, known = by[string(key)]; !known {
					n = len(out)
					by[string(key)] = n
					out = append(out, newDemandGroup(pools))
				}
				r.groups[c.PodShape] = n
				out[n].addOfferings(pools, c.PodShape)
			}
			out[n].demand = out[n].demand.Add(c.Requests.Times(len(pods)))
		})
	}
	return out
}

// prices returns the prices for one proportion, by group.
func prices(demands []*demandGroup, nodeTypesByGroup [][]covering.NodeType, demand quantity.Vector, proportion float64) []covering.UnitPrices {
	order := make([]int, len(demands))
	for i, dg := range demands {
		order[i] = i
		asked := dg.demand
		asked[quantity.Memory] = int64(float64(asked[quantity.Memory]) * proportion)
		_, solved := covering.Solve(asked, 0, nodeTypesByGroup[i])
		dg.prices = solved.Units
		dg.worth = dg.prices.Worth(&demand)
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(demands[y].worth, demands[x].worth) })
	out := make([]covering.UnitPrices, len(demands))
	for i, at := range order {
		for _, before := range order[:i] {
			demands[at].lowerPrices(demands[before])
		}
		out[at] = demands[at].prices
	}
	return out
}

// Worth is what the reschedulable pods of the nodes are worth together, per hour.
func (r *ShadowPrices) Worth(nodes ...*cluster.NodeInfo) offering.Price {
	most := 0.0
	for _, set := range r.sets {
		sum := 0.0
		for _, node := range nodes {
			node.EachReschedulable(func(c *cluster.PodClass, pods []cluster.PodRef) {
				if n, known := r.groups[c.PodShape]; known {
					for _, d := range c.Dims {
						sum += float64(float64(c.Requests[d]*int64(len(pods))) * set[n][d])
					}
				}
			})
		}
		most = max(most, sum)
	}
	// The simplex method rounds; a bound must not be rounded up.
	return offering.Price(math.Floor(min(most*(1-1e-9)*1e9, math.MaxInt64/2)))
}
