// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/karve-dev/karve/engine/offering"
)

// TestFloorIsOne compares the lower bound with every way to run a handful of pods: none costs
// less, and the best one little more.
func TestFloorIsOne(t *testing.T) {
	var floors, best float64
	for seed := range uint64(300) {
		c, pods := handful(seed)
		least := &exhaust{c: c, pods: pods, best: math.Inf(1)}
		least.place(0, nil, 0)
		floor := c.floor(pods, 1e12).USD()
		if floor > least.best+1e-6 {
			t.Errorf("seed %d: the floor is %.4f, and %.4f is enough: %s", seed, floor, least.best, describe(c))
		}
		floors, best = floors+floor, best+least.best
	}
	t.Logf("together %.2f at least, %.2f in fact", floors, best)
	if floors < 0.9*best {
		t.Errorf("the floors together are %.2f, far below the %.2f that is possible", floors, best)
	}
}

// handful is a cluster of a few pods of which some are pinned, and the pods that are not.
func handful(seed uint64) (*Cluster, []*pod) {
	rng := rand.New(rand.NewPCG(seed, 7))
	c := New(seed, nil, &Pool{Name: "general"}, &Pool{Name: "batch", Taint: "batch", CapacityTypes: []string{offering.OnDemand}})
	for range 12 {
		c.catalog.setPriceFactor(offeringKey{sizes[rng.IntN(len(sizes))].name, zones[rng.IntN(3)], offering.OnDemand}, 0.6+rng.Float64())
	}
	var pods []*pod
	for i, left := 0, 6; left > 0; i++ {
		n := 1 + rng.IntN(left)
		left -= n
		w := &workload{
			Name: fmt.Sprint("w", i), Milli: []int64{100, 500, 1500, 3000}[rng.IntN(4)], MiB: []int64{128, 1024, 6000, 12000}[rng.IntN(4)],
			Replicas: n, Placement: placement{Spread: rng.IntN(2) == 0, OnePerNode: rng.IntN(4) == 0, OnDemand: rng.IntN(4) == 0},
		}
		if rng.IntN(3) == 0 {
			w.Placement.Pool, w.Placement.Tolerates = "batch", "batch"
		}
		c.workloads.deploy(w)
		first := rng.IntN(3)
		for j := range n {
			p := c.workloads.create(w)
			p.node = &node{offering: offeringKey{zone: zones[(first+j)%3]}}
			if left+n < 6 || j > 0 { // one pod at most is pinned
				pods = append(pods, p)
			}
		}
	}
	return c, pods
}

func describe(c *Cluster) (out string) {
	for _, w := range c.workloads.list {
		out += fmt.Sprintf("\n%d x %dm %dMi pool=%q spread=%v apart=%v on-demand=%v", w.Replicas, w.Milli, w.MiB, w.Placement.Pool, w.Placement.Spread, w.Placement.OnePerNode, w.Placement.OnDemand)
	}
	return out
}

// exhaust tries every way to put pods together, on every instance type.
type exhaust struct {
	c    *Cluster
	pods []*pod
	best float64
}

// pile is pods on one node, whose zone and pool are chosen and whose size is not.
type pile struct {
	on         offeringKey // but for the type
	pool       *Pool
	milli, mib int64
	owners     []*workload
	price      float64 // of the cheapest size that holds them
}

func (e *exhaust) place(i int, piles []pile, price float64) {
	if price >= e.best {
		return
	}
	if i == len(e.pods) {
		if e.even(piles) {
			e.best = price
		}
		return
	}
	w := e.pods[i].owner
	for j, h := range piles {
		if more, ok := e.with(h, w); ok {
			old := piles[j]
			piles[j] = more
			e.place(i+1, piles, price-old.price+more.price)
			piles[j] = old
		}
	}
	for _, p := range e.c.Pools {
		for _, capacity := range []string{offering.OnDemand, offering.Spot} {
			if len(p.CapacityTypes) > 0 && p.CapacityTypes[0] != capacity {
				continue
			}
			for _, z := range zones {
				if h, ok := e.with(pile{on: offeringKey{zone: z, capacityType: capacity}, pool: p}, w); ok {
					e.place(i+1, append(piles[:len(piles):len(piles)], h), price+h.price)
				}
			}
		}
	}
}

// with returns the pile with one pod more, unless it fits no instance type.
func (e *exhaust) with(h pile, w *workload) (pile, bool) {
	if !w.Placement.admits(h.pool, h.on.capacityType) {
		return h, false
	}
	for _, o := range h.owners {
		if o == w && w.Placement.OnePerNode {
			return h, false
		}
	}
	h.milli, h.mib, h.owners, h.price = h.milli+w.Milli, h.mib+w.MiB, append(h.owners[:len(h.owners):len(h.owners)], w), math.Inf(1)
	for _, s := range sizes {
		if s.cores*1000-systemMilli-daemonMilli >= h.milli && s.gib*1024-systemMiB-daemonMiB >= h.mib {
			h.price = min(h.price, e.c.catalog.price(offeringKey{s.name, h.on.zone, h.on.capacityType}).USD())
		}
	}
	return h, !math.IsInf(h.price, 1)
}

// even reports whether every spread has a skew of 1 at most, pinned pods where they are.
func (e *exhaust) even(piles []pile) bool {
	for _, w := range e.c.workloads.list {
		if !w.Placement.Spread {
			continue
		}
		at := map[string]int{}
		for _, p := range w.pods {
			at[p.node.offering.zone]++
		}
		for _, p := range e.pods {
			if p.owner == w {
				at[p.node.offering.zone]--
			}
		}
		for _, h := range piles {
			for _, o := range h.owners {
				if o == w {
					at[h.on.zone]++
				}
			}
		}
		lo, hi := math.MaxInt, 0
		for _, z := range zones {
			lo, hi = min(lo, at[z]), max(hi, at[z])
		}
		if hi-lo > 1 {
			return false
		}
	}
	return true
}
