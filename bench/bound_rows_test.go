// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/karve-dev/karve/bench/karve"
	"github.com/karve-dev/karve/bench/scenario"
)

// Plans for a small region, for one Deployment and for tenants that keep apart cost at most a tenth more
// than any plan must. The plan's own bound knows neither whole pods nor who keeps apart.
func TestWithinTheBound(t *testing.T) {
	tried := 0
	for _, it := range (config{quick: true}).items() {
		if !it.wholePods {
			continue
		}
		tried++
		s, err := it.make(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		plan, _ := karve.New(s).Decide()
		least, err := karve.LaunchBound(s, plan)
		if err != nil {
			t.Fatalf("%s: %v", it.name, err)
		}
		price := plan.Price().USD()
		t.Logf("%s: %.4f $/h, at least %.4f, by the plan itself %v", it.name, price, least, plan.LowerBound)
		if price < least*(1-1e-9) || price > 1.1*least || len(plan.Unplaced) > 0 {
			t.Errorf("%s: the plan costs %.4f $/h and leaves out %v, the bound is %.4f", it.name, price, plan.Unplaced, least)
		}
	}
	if tried < 3 {
		t.Errorf("%d rows have the bound, want at least 3", tried)
	}
}

// TestPlansMadeOnce: where pods are too many for the plan to be made in more than one way, those that must
// share a node still fill nodes together with others that must (Rule SPREAD-8), and those that all differ are
// still mixed so that a node's cpu and memory are both used.
func TestPlansMadeOnce(t *testing.T) {
	tested := 0
	for _, f := range scenario.HardFamilies() {
		if f.Name != scenario.NodeChains && f.Name != scenario.DistinctRequests {
			continue
		}
		tested++
		plan, _ := karve.New(f.Make(f.Size)).Decide()
		price, least := plan.Price(), plan.LowerBound
		if price < least || price > least+least/20 || len(plan.Unplaced) > 0 {
			t.Errorf("%s: the plan for %d pods costs %v $/h and leaves out %d groups of pods, the bound is %v", f.Name, f.Size, price, len(plan.Unplaced), least)
		}
	}
	if tested != 2 {
		t.Errorf("%d families tested, want 2", tested)
	}
}

// TestLargestMix holds the plan for the largest mix, which is made in two ways and no more, within a tenth of
// its own bound.
func TestLargestMix(t *testing.T) {
	plan, _ := karve.New(scenario.Diverse(20_000)).Decide()
	price, least := plan.Price(), plan.LowerBound
	if price < least || price > least+least/10 || len(plan.Unplaced) > 0 {
		t.Errorf("the plan costs %v $/h and leaves out %d groups of pods, the bound is %v", price, len(plan.Unplaced), least)
	}
}

// A plan for other pods is refused: its bound would mean nothing.
func TestBoundOfAnotherPlan(t *testing.T) {
	plan, _ := karve.New(scenario.Diverse(20)).Decide()
	if least, err := karve.LaunchBound(scenario.Diverse(10), plan); err == nil {
		t.Errorf("the bound is %v, want an error", least)
	}
}
