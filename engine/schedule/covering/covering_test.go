// SPDX-License-Identifier: Apache-2.0

package covering

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/karve-dev/karve/engine/quantity"
)

// TestShadowPrices (Rule PLAN-11): the shadow prices are feasible, so their sum is a bound;
// and no mix of two shapes costs less, so with two resources it is exact.
func TestShadowPrices(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 3))
		demand := quantity.Vector{quantity.CPU: int64(1 + r.IntN(1e6)), quantity.Memory: int64(1+r.IntN(1e6)) << 20}
		nodeTypes := make([]NodeType, 1+r.IntN(8))
		for i := range nodeTypes {
			nodeTypes[i] = NodeType{quantity.Vector{quantity.CPU: int64(1+r.IntN(96)) * 1000, quantity.Memory: int64(1+r.IntN(512)) << 30}, 0.01 + r.Float64()*10}
		}
		for i := range nodeTypes {
			nodeTypes[i].Room = Capped(nodeTypes[i].Room, &demand)
		}
		cost, prices := Solve(demand, 0, nodeTypes)
		for i, s := range nodeTypes {
			if worth := float64(s.Room[0])*prices.Units[0] + float64(s.Room[1])*prices.Units[1]; worth > s.Price*(1+1e-9) {
				t.Fatalf("seed %d: node type %d is worth %v, more than its price %v", seed, i, worth, s.Price)
			}
		}
		if want := cheapestMix(demand, nodeTypes); math.Abs(cost-want) > 1e-9*want {
			t.Fatalf("seed %d: bound %v, the cheapest mix costs %v", seed, cost, want)
		}
	}
}

// cheapestMix tries every pair of shapes: the basis of a covering problem with two resources
// has at most two.
func cheapestMix(demand quantity.Vector, nodeTypes []NodeType) float64 {
	best := math.Inf(1)
	cpu, mem := float64(demand[0]), float64(demand[1])
	for _, a := range nodeTypes {
		best = min(best, a.Price*max(cpu/float64(a.Room[0]), mem/float64(a.Room[1])))
		for _, b := range nodeTypes {
			det := float64(a.Room[0])*float64(b.Room[1]) - float64(b.Room[0])*float64(a.Room[1])
			x := (cpu*float64(b.Room[1]) - mem*float64(b.Room[0])) / det
			y := (mem*float64(a.Room[0]) - cpu*float64(a.Room[1])) / det
			if x >= 0 && y >= 0 {
				best = min(best, x*a.Price+y*b.Price)
			}
		}
	}
	return best
}

// TestShadowPriceOfNodes: when pods must be on different nodes, a node has a price of its
// own.
func TestShadowPriceOfNodes(t *testing.T) {
	demand := quantity.Vector{quantity.CPU: 4000}
	small, large := NodeType{quantity.Vector{quantity.CPU: 1000}, 1}, NodeType{quantity.Vector{quantity.CPU: 4000}, 2}
	for nodes, want := range map[int]float64{0: 2, 1: 2, 3: 3 + 1.0/3, 4: 4, 5: 5} {
		cost, prices := Solve(demand, nodes, []NodeType{small, large})
		if math.Abs(cost-want) > 1e-9 {
			t.Errorf("%d nodes cost at least %v, want %v", nodes, cost, want)
		}
		if dual := 4000*prices.Units[quantity.CPU] + float64(nodes)*prices.Node; math.Abs(dual-cost) > 1e-9 {
			t.Errorf("%d nodes: the prices are worth %v, the bound is %v", nodes, dual, cost)
		}
	}
}

func TestNoBoundWithoutOfferings(t *testing.T) {
	gpu := quantity.Vector{5: 1}
	if cost, _ := Solve(gpu, 0, []NodeType{{quantity.Vector{quantity.CPU: 4000}, 1}}); cost != 0 {
		t.Errorf("a resource that no node type has bounds the cost by %v", cost)
	}
}
