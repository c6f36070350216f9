// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/schedule/covering"
)

// lowerBound sums up, over the weights of pools, the least that the pods of launches at that
// weight can cost there.
func (s *solver) lowerBound() offering.Price {
	var sum float64
	for _, pools := range s.pools.byWeight() {
		sum += s.lowerBoundOf(pools)
	}
	// The simplex method rounds; a bound must not be rounded up.
	return offering.Price(math.Floor(min(sum*(1-1e-9)*1e9, math.MaxInt64/2)))
}

// demandGroup is pods that labels and taints admit to the same offerings, and what they ask
// for of the nodes to be launched from pools of equal weight.
type demandGroup struct {
	rows   []bitset.Set // by pool; only those that one of the pods fits on
	demand quantity.Vector
	prices covering.UnitPrices
	worth  float64
}

// lowerBoundOf is the larger of two bounds for the launches of pools of equal weight. One is
// the fractional covering of all demand together, by as many nodes as the pods limited per
// node need. The other takes into account which offerings each pod may use.
func (s *solver) lowerBoundOf(pools []*poolState) float64 {
	different := differentPools(pools, &s.topology)
	demands := s.demandGroups(pools, different)
	if len(demands) == 0 {
		return 0
	}
	rows := make([]bitset.Set, len(different))
	for _, dg := range demands {
		for i := range rows {
			rows[i].Merge(dg.rows[i])
		}
	}
	var demand quantity.Vector // shared volumes included, each once per node
	for _, l := range s.launches.all {
		if slices.Contains(pools, l.pool) {
			demand = demand.Add(l.used)
		}
	}
	together, _ := covering.Solve(demand, s.counters.minNodes(pools), nodeTypes(different, rows, &demand))
	if len(demands) == 1 {
		return together
	}
	return max(together, boundByGroup(different, demands, demand))
}

// differentPools leaves out pools that are alike to one before them: their offerings cost the same.
func differentPools(pools []*poolState, t *topology) []*poolState {
	if len(pools) == 1 {
		return pools
	}
	keys := keySet{}
	for _, pool := range pools {
		for shape := range pool.pods {
			keys.add(shape.Keys)
		}
	}
	var alike alikePools
	alike.find(pools, t, slices.Collect(maps.Keys(keys)))
	return alike.firstPools()
}

// boundByGroup prices each group's demand by its own covering problem, but never above a group
// before it that may use some of the same offerings. For every offering, the prices of all
// groups that may use it are then at most those of the first of them, and under those no
// content of the offering is worth more than the offering costs. So the prices are a feasible
// solution of the dual, and the worth of the demand under them is a bound.
func boundByGroup(pools []*poolState, demands []*demandGroup, demand quantity.Vector) float64 {
	for _, dg := range demands {
		_, solved := covering.Solve(dg.demand, 0, nodeTypes(pools, dg.rows, &demand))
		dg.prices = solved.Units
		dg.worth = dg.prices.Worth(&demand)
	}
	slices.SortStableFunc(demands, func(x, y *demandGroup) int { return cmp.Compare(y.worth, x.worth) })
	var sum float64
	for i, dg := range demands {
		for _, before := range demands[:i] {
			dg.lowerPrices(before)
		}
		sum += dg.prices.Worth(&dg.demand)
	}
	return sum
}

// lowerPrices lowers prices that are above those of another group to them, if the groups share
// offerings.
func (dg *demandGroup) lowerPrices(by *demandGroup) {
	if !dg.shares(by) {
		return
	}
	for d := range dg.prices {
		dg.prices[d] = min(dg.prices[d], by.prices[d])
	}
}

// newDemandGroup makes a group without pods.
func newDemandGroup(pools []*poolState) *demandGroup {
	return &demandGroup{rows: make([]bitset.Set, len(pools))}
}

// addOfferings adds the offerings on which pods of the shape fit.
func (dg *demandGroup) addOfferings(pools []*poolState, of *cluster.PodShape) {
	for i, pool := range pools {
		dg.rows[i].MergeCommon(pool.Compatible(of).All, pool.available())
	}
}

// shares reports whether some offering may be used by both groups.
func (dg *demandGroup) shares(o *demandGroup) bool {
	for i := range dg.rows {
		if dg.rows[i].Intersects(o.rows[i]) {
			return true
		}
	}
	return false
}

// demandGroups groups the pods of launches from the pools by the offerings that they may use; the
// different ones among the pools have all of these. It ignores preferences: they add cost, but do
// not exclude offerings.
func (s *solver) demandGroups(pools, different []*poolState) []*demandGroup {
	var key []byte
	var rows bitset.Set // scratch
	by, seen := map[string]*demandGroup{}, map[*cluster.PodShape]bool{}
	var out []*demandGroup
	for _, g := range s.podGroups {
		of := g.class.PodShape
		n := 0
		for _, pool := range pools {
			n += pool.pods[of]
		}
		if n == 0 || seen[of] {
			continue
		}
		seen[of] = true
		key = key[:0]
		for _, pool := range different {
			rows.Copy(pool.Admitting(of))
			rows.Keep(pool.available())
			key = append(rows.Append(key), '|')
		}
		dg := by[string(key)]
		if dg == nil {
			dg = newDemandGroup(different)
			by[string(key)], out = dg, append(out, dg)
		}
		dg.demand = dg.demand.Add(of.Requests.Times(n))
		dg.addOfferings(different, of)
	}
	return out
}

// minNodes is how many nodes of the pools the pods limited per node need at least.
func (cs *counters) minNodes(pools []*poolState) int {
	n := 0
	for c := range cs.all {
		var sum limitedPods
		for _, pool := range pools {
			if limited := pool.limitedPods[c]; limited.pods > 0 {
				sum.pods, sum.perNode = sum.pods+limited.pods, max(sum.perNode, limited.perNode)
			}
		}
		if sum.pods > 0 {
			n = max(n, sum.minNodes())
		}
	}
	return n
}

// nodeTypes lists the offerings of the pools as node types to cover with, without capacity beyond all of
// the demand.
func nodeTypes(pools []*poolState, rows []bitset.Set, demand *quantity.Vector) []covering.NodeType {
	var out []covering.NodeType
	for i, pool := range pools {
		out = pool.appendNodeTypes(out, rows[i], demand)
	}
	return out
}

// appendNodeTypes adds the offerings but those of an instance type that is listed at a lower price
// already.
func (pool *poolState) appendNodeTypes(out []covering.NodeType, rows bitset.Set, demand *quantity.Vector) []covering.NodeType {
	out = slices.Grow(out, min(rows.Len(), len(pool.Catalog.Types)))
	at := make([]int, len(pool.Catalog.Types)) // one more than the index in out
	for row := range rows.All() {
		room := covering.Capped(pool.Allocatable[row], demand)
		t := pool.Catalog.Offerings[row].Type
		if at[t] > 0 && out[at[t]-1].Room == room {
			continue
		}
		out = append(out, covering.NodeType{Room: room, Price: pool.Catalog.Offerings[row].Price.USD()})
		at[t] = len(out)
	}
	return out
}
