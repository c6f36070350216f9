// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"cmp"
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
	for _, tier := range s.pools.byWeight() {
		sum += s.covering(tier)
	}
	// The simplex method rounds; a bound must not be rounded up.
	return offering.Price(math.Floor(min(sum*(1-1e-9)*1e9, math.MaxInt64/2)))
}

// demandGroup is pods that labels and taints admit to the same offerings, and what they ask
// for of the nodes to be launched from one tier.
type demandGroup struct {
	rows   []bitset.Set // by pool of the tier; only those that one of the pods fits on
	demand quantity.Vector
	prices covering.Units
	worth  float64
}

// covering is the larger of two bounds for the launches of a tier. One is the fractional
// covering of all demand together, by as many nodes as the pods limited per node need. The
// other takes into account which offerings each pod may use.
func (s *solver) covering(tier []*poolState) float64 {
	demands := s.demandGroups(tier)
	if len(demands) == 0 {
		return 0
	}
	rows := make([]bitset.Set, len(tier))
	for _, f := range demands {
		for i := range rows {
			rows[i].Merge(f.rows[i])
		}
	}
	var demand quantity.Vector // shared volumes included, each once per node
	for _, l := range s.launches.all {
		if slices.Contains(tier, l.pool) {
			demand = demand.Add(l.used)
		}
	}
	together, _ := covering.Solve(demand, s.counters.nodesNeeded(tier), shapes(tier, rows, &demand))
	if len(demands) == 1 {
		return together
	}
	return max(together, apart(tier, demands, demand))
}

// apart prices each group's demand by its own covering problem, but never above a group
// before it that may use some of the same offerings. For every offering, the prices of all
// groups that may use it are then at most those of the first of them, and under those no
// content of the offering is worth more than the offering costs. So the prices are a feasible
// solution of the dual, and the worth of the demand under them is a bound.
func apart(tier []*poolState, demands []*demandGroup, demand quantity.Vector) float64 {
	for _, f := range demands {
		_, solved := covering.Solve(f.demand, 0, shapes(tier, f.rows, &demand))
		f.prices = solved.Units
		f.worth = f.prices.Worth(&demand)
	}
	slices.SortStableFunc(demands, func(x, y *demandGroup) int { return cmp.Compare(y.worth, x.worth) })
	var sum float64
	for i, f := range demands {
		for _, before := range demands[:i] {
			f.cut(before)
		}
		sum += f.prices.Worth(&f.demand)
	}
	return sum
}

// cut lowers prices that are above those of another group to them, if the groups share
// offerings.
func (f *demandGroup) cut(by *demandGroup) {
	if !f.shares(by) {
		return
	}
	for d := range f.prices {
		f.prices[d] = min(f.prices[d], by.prices[d])
	}
}

// newDemandGroup makes a group without pods.
func newDemandGroup(tier []*poolState) *demandGroup {
	return &demandGroup{rows: make([]bitset.Set, len(tier))}
}

// admit adds the offerings on which pods of the shape fit.
func (f *demandGroup) admit(tier []*poolState, of *cluster.PodShape) {
	for i, pool := range tier {
		f.rows[i].Merge(pool.Compatible(of).All.And(pool.available()))
	}
}

func (f *demandGroup) shares(o *demandGroup) bool {
	for i := range f.rows {
		if f.rows[i].Meets(o.rows[i]) {
			return true
		}
	}
	return false
}

// demandGroups groups the pods of launches by the offerings that they may use. It ignores
// preferences: they add cost, but do not exclude offerings.
func (s *solver) demandGroups(tier []*poolState) []*demandGroup {
	var key []byte
	by, seen := map[string]*demandGroup{}, map[*cluster.PodShape]bool{}
	var out []*demandGroup
	for _, g := range s.podGroups {
		of := g.class.PodShape
		n := 0
		for _, pool := range tier {
			n += pool.pods[of]
		}
		if n == 0 || seen[of] {
			continue
		}
		seen[of] = true
		key = key[:0]
		for _, pool := range tier {
			key = append(pool.Admitting(of).And(pool.available()).Append(key), '|')
		}
		f := by[string(key)]
		if f == nil {
			f = newDemandGroup(tier)
			by[string(key)], out = f, append(out, f)
		}
		f.demand = f.demand.Add(of.Requests.Times(n))
		f.admit(tier, of)
	}
	return out
}

// nodesNeeded is how many nodes of the tier the pods limited per node need at least.
func (t *counters) nodesNeeded(tier []*poolState) int {
	n := 0
	for c := range t.all {
		var sum limitedPods
		for _, pool := range tier {
			if limited := pool.limitedPods[c]; limited.pods > 0 {
				sum.pods, sum.perNode = sum.pods+limited.pods, max(sum.perNode, limited.perNode)
			}
		}
		if sum.pods > 0 {
			n = max(n, sum.nodes())
		}
	}
	return n
}

// shapes lists the offerings of a tier's pools as covering shapes, without capacity beyond all
// of the demand.
func shapes(tier []*poolState, rows []bitset.Set, demand *quantity.Vector) []covering.Shape {
	var out []covering.Shape
	for i, pool := range tier {
		out = append(out, pool.distinctShapes(rows[i], demand)...)
	}
	return out
}

// distinctShapes leaves out offerings of an instance type that is listed at a lower price
// already.
func (pool *poolState) distinctShapes(rows bitset.Set, demand *quantity.Vector) []covering.Shape {
	var out []covering.Shape
	at := make([]int, len(pool.Catalog.Types)) // one more than the index in out
	for row := range rows.All() {
		room := covering.Capped(pool.Allocatable[row], demand)
		t := pool.Catalog.Offerings[row].Type
		if at[t] > 0 && out[at[t]-1].Room == room {
			continue
		}
		out = append(out, covering.Shape{Room: room, Price: pool.Catalog.Offerings[row].Price.USD()})
		at[t] = len(out)
	}
	return out
}
