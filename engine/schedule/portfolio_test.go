// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/schedule"
)

// TestPolicies (Rule PLAN-16): the plan that the portfolio chose leaves out no more pods than the plan by
// the zero policy, and costs no more where it leaves out as many; often it costs less. It is the same in
// any order of events.
func TestPolicies(t *testing.T) {
	cheaper, placesMore := 0, 0
	for seed := range uint64(300) {
		script := enginetest.RandomFull(seed, 25)
		zero, best := byZeroPolicy(script.Snapshot()), schedule.Solve(script.Snapshot())
		left, leftByZero := countUnplaced(best), countUnplaced(zero)
		switch {
		case left < leftByZero:
			placesMore++
		case left == leftByZero && listed(best) < listed(zero):
			cheaper++
		case left == leftByZero && listed(best) > listed(zero) && best.Preferences.Asked == 0:
			t.Errorf("seed %d: costs %s, by the zero policy %s", seed, best.Price(), zero.Price())
		}
		again := schedule.Solve(shuffle(script, seed).Snapshot())
		if diff := cmp.Diff(enginetest.Print(best), enginetest.Print(again)); diff != "" {
			t.Errorf("seed %d: the order of events matters:\n%s", seed, diff)
		}
	}
	if cheaper < 20 {
		t.Errorf("%d of 300 plans are cheaper than by the zero policy, want 20 or more", cheaper)
	}
	t.Logf("%d cheaper, %d place more", cheaper, placesMore)
}

// TestPortfolio: on random clusters the policies of the portfolio save nearly all that any policy would.
func TestPortfolio(t *testing.T) {
	var zero, best, bestOfAll float64
	for seed := range uint64(200) {
		z, b, a := schedule.PolicyPrices(enginetest.RandomFull(seed, 25).Snapshot())
		zero, best, bestOfAll = zero+z, best+b, bestOfAll+a
	}
	t.Logf("%.3f USD/h by the zero policy, %.3f by the portfolio, %.3f by all policies", zero, best, bestOfAll)
	if zero-best < 0.9*(zero-bestOfAll) || bestOfAll >= zero {
		t.Errorf("the portfolio saves %.3f USD/h of %.3f, want nine tenths", zero-best, zero-bestOfAll)
	}
}

// listed is the price of a plan without what its preferences cost.
func listed(p schedule.Plan) offering.Price { return p.Price() - p.Preferences.Cost }

func countUnplaced(p schedule.Plan) int {
	n := 0
	for _, u := range p.Unplaced {
		n += len(u.Pods)
	}
	return n
}

// TestDivideByShare (Rule PLAN-16): of plans with many launches, several cost less where what a node should
// hold is computed again by the share of the pods placed; Solve takes these.
func TestDivideByShare(t *testing.T) {
	cheaper := 0
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0))
		text := "type D16 cpu=16 mem=64Gi price=0.80\ntype E8 cpu=8 mem=64Gi price=0.52\ntype F8 cpu=8 mem=16Gi price=0.38\ntype D4 cpu=4 mem=16Gi price=0.21\npool all\n"
		for i := range 40 {
			text += fmt.Sprintf("pods p%d x%d cpu=%dm mem=%dMi", i, 1+random.IntN(60), 100+random.IntN(3000), 100+random.IntN(12000))
			if i%4 == 0 {
				text += fmt.Sprintf(" label:app=p%d anti-affinity=host", i)
			}
			text += "\n"
		}
		script, err := enginetest.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		zero, byShare := schedule.DividedPrices(script.Snapshot())
		if byShare < zero {
			cheaper++
		}
		if best := schedule.Solve(script.Snapshot()).Price().USD(); best > min(zero, byShare) {
			t.Errorf("seed %d: costs %.4f USD/h, in the two ways %.4f and %.4f", seed, best, zero, byShare)
		}
	}
	t.Logf("%d of 20 cheaper", cheaper)
	if cheaper < 5 {
		t.Errorf("%d of 20 plans are cheaper by share, want 5 or more", cheaper)
	}
}

// TestPrioritiesShareNodes (Rule PLAN-16): pods of many priorities share nodes, also when there are too
// many to be planned for in all ways.
func TestPrioritiesShareNodes(t *testing.T) {
	text := "type D16 cpu=16 mem=64Gi price=0.80\ntype D4 cpu=4 mem=16Gi price=0.21\npool all\n"
	for i := range 100 {
		text += fmt.Sprintf("pods p%d x2 cpu=300m mem=1Gi priority=%d\n", i, i)
	}
	script, err := enginetest.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	zero, plan := byZeroPolicy(script.Snapshot()), schedule.SolveWithBudget(script.Snapshot(), schedule.Policies, 1)
	if plan.Price() >= zero.Price() || plan.Gap() > 0.10 {
		t.Errorf("%d nodes for %s, by the zero policy %d for %s, the bound is %s", len(plan.Launches), plan.Price(), len(zero.Launches), zero.Price(), plan.LowerBound)
	}
	if plan.Unexamined(schedule.Policies) == 0 {
		t.Error("the plan does not say that policies were not tried")
	}
}
