// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
)

// No filling costs less per worth than the bound, whatever was launched before. Where pods are all
// different the bound is close: it comes from the pods that fill puts on the node first.
func TestNoFillingCostsLessThanItsBound(t *testing.T) {
	closer := 0
	var packings Packings
	for seed := range uint64(60) {
		s := newSolverOf(differentPods(seed))
		allotments, _ := s.assign(s.podGroups)
		lr := newLauncher(s, s.pools.byWeight()[0], allotments)
		lr.gatherCandidates()
		for range 8 {
			if lr.comparePackWithFill(&packings); packings.Difference != "" {
				t.Fatalf("seed %d: %s", seed, packings.Difference)
			}
			lr.boundPricePerWorth()
			least, last, n := math.Inf(1), 0.0, 0
			for cand := range lr.promising(&least) {
				if n++; cand.minPricePerWorth < last {
					t.Fatalf("seed %d: a candidate bounded by %v is tried after one bounded by %v", seed, cand.minPricePerWorth, last)
				}
				last = cand.minPricePerWorth
				lr.fill(cand)
				if cost := cand.price / cand.worth; len(cand.content) > 0 && cost < cand.minPricePerWorth {
					t.Fatalf("seed %d: a filling costs %v, bounded by %v", seed, cost, cand.minPricePerWorth)
				}
				if cand.price/cand.minPricePerWorth < 0.9*cand.group.bound.of(&cand.room) {
					closer++
				}
			}
			if n != len(lr.candidates) {
				t.Fatalf("seed %d: %d of %d candidates are tried", seed, n, len(lr.candidates))
			}
			best := lr.best()
			if best == nil {
				break
			}
			lr.launchCopies(best)
		}
	}
	if packings.Packed < 1000 {
		t.Errorf("%d nodes are packed, want 1000 or more", packings.Packed)
	}
	if closer < 1000 {
		t.Errorf("the bound of %d fillings is close, want 1000 or more", closer)
	}
}

func newSolverOf(snapshot *cluster.Snapshot) *solver {
	ps := newPreferenceSearch(snapshot)
	return newSolver(ps, newLearned(directions{}), nil, noMaxPrice)
}

// differentPods are pods that ask for different amounts, or a few for the same, with other rules
// by seed, and types with more or less memory to a core.
func differentPods(seed uint64) *cluster.Snapshot {
	r := rand.New(rand.NewPCG(seed, 1))
	b := cluster.NewBuilder()
	var types []offering.InstanceType
	for i := range 40 {
		cores, gib := 1+r.Int64N(48), 1+r.Int64N(8)
		it := offering.InstanceType{Name: fmt.Sprint("type", i), Labels: map[string][]string{"os": {"linux", "windows"}},
			Capacity: quantity.Amounts{quantity.NameCPU: cores * 1000, quantity.NameMemory: cores * gib << 30, quantity.NamePods: 250}}
		for _, zone := range []string{"1", "2"} {
			it.Offerings = append(it.Offerings, offering.Offering{Zone: zone, CapacityType: offering.OnDemand, Price: offering.Price(cores*40_000_000 + cores*gib*20_000_000 + r.Int64N(100_000_000))})
		}
		types = append(types, it)
	}
	b.SetCatalog("class", types, nil)
	b.SetPool(cluster.NodePool{Name: "pool", NodeClass: "class"})
	var requests quantity.Amounts
	for i := range 300 {
		if seed%2 == 0 || i%8 == 0 {
			requests = quantity.Amounts{quantity.NameCPU: 100 + r.Int64N(800), quantity.NameMemory: (128 + r.Int64N(1000)) << 20, quantity.NamePods: 1}
		}
		name := fmt.Sprint("pod", i)
		p := cluster.Pod{PodRef: cluster.PodRef{Namespace: "default", Name: name, UID: name}, Labels: map[string]string{"app": name}, Requests: requests}
		switch {
		case seed%3 == 1 && i%3 == 0: // windows or linux, which no node is at once
			p.Required = cluster.Term{{Key: "os", Operator: constraint.In, Values: []string{[]string{"linux", "windows"}[i%2]}}}
		case seed%3 == 2 && i%3 == 0: // only beside one of the others
			p.Affinity = []cluster.PodAffinityTerm{{Key: cluster.LabelHostname, Selector: cluster.Selector{
				Namespaces: []string{"default"}, Labels: cluster.Term{{Key: "app", Operator: constraint.In, Values: []string{"pod1"}}}}}}
		}
		b.SetPod(p)
	}
	return b.Snapshot()
}
