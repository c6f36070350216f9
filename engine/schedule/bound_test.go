package schedule

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
		shapes := make([]shape, 1+r.IntN(8))
		for i := range shapes {
			shapes[i] = shape{quantity.Vector{quantity.CPU: int64(1+r.IntN(96)) * 1000, quantity.Memory: int64(1+r.IntN(512)) << 30}, 0.01 + r.Float64()*10}
		}
		for i := range shapes {
			shapes[i].room = capped(shapes[i].room, &demand)
		}
		cost, lambda, _ := shadow(demand, 0, shapes)
		for i, s := range shapes {
			if worth := float64(s.room[0])*lambda[0] + float64(s.room[1])*lambda[1]; worth > s.price*(1+1e-9) {
				t.Fatalf("seed %d: shape %d is worth %v, more than its price %v", seed, i, worth, s.price)
			}
		}
		if want := cheapestMix(demand, shapes); math.Abs(cost-want) > 1e-9*want {
			t.Fatalf("seed %d: bound %v, the cheapest mix costs %v", seed, cost, want)
		}
	}
}

// cheapestMix tries every pair of shapes: the basis of a covering problem with two resources
// has at most two.
func cheapestMix(demand quantity.Vector, shapes []shape) float64 {
	best := math.Inf(1)
	cpu, mem := float64(demand[0]), float64(demand[1])
	for _, a := range shapes {
		best = min(best, a.price*max(cpu/float64(a.room[0]), mem/float64(a.room[1])))
		for _, b := range shapes {
			det := float64(a.room[0])*float64(b.room[1]) - float64(b.room[0])*float64(a.room[1])
			x := (cpu*float64(b.room[1]) - mem*float64(b.room[0])) / det
			y := (mem*float64(a.room[0]) - cpu*float64(a.room[1])) / det
			if x >= 0 && y >= 0 {
				best = min(best, x*a.price+y*b.price)
			}
		}
	}
	return best
}

// TestShadowPriceOfMachines: when pods must be on different nodes, a node has a price of its
// own.
func TestShadowPriceOfMachines(t *testing.T) {
	demand := quantity.Vector{quantity.CPU: 4000}
	small, large := shape{quantity.Vector{quantity.CPU: 1000}, 1}, shape{quantity.Vector{quantity.CPU: 4000}, 2}
	for machines, want := range map[int]float64{0: 2, 1: 2, 3: 3 + 1.0/3, 4: 4, 5: 5} {
		cost, lambda, mu := shadow(demand, machines, []shape{small, large})
		if math.Abs(cost-want) > 1e-9 {
			t.Errorf("%d machines cost at least %v, want %v", machines, cost, want)
		}
		if dual := 4000*lambda[quantity.CPU] + float64(machines)*mu; math.Abs(dual-cost) > 1e-9 {
			t.Errorf("%d machines: the prices are worth %v, the bound is %v", machines, dual, cost)
		}
	}
}

func TestNoBoundWithoutOffers(t *testing.T) {
	gpu := quantity.Vector{5: 1}
	if cost, _, _ := shadow(gpu, 0, []shape{{quantity.Vector{quantity.CPU: 4000}, 1}}); cost != 0 {
		t.Errorf("a resource that nobody sells bounds the cost by %v", cost)
	}
}
