// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/schedule"
)

// TestOwed (Rule PLAN-17): a plan with pods to come in mind is as right as any other, places every pod
// that it would place without them, launches no node without pods, and is the same in any order of events.
// Some plans differ from those without.
func TestOwed(t *testing.T) {
	different := 0
	for seed := range uint64(150) {
		script := enginetest.RandomFull(seed, 25)
		without := schedule.Solve(script.Snapshot())
		addOwners(script, seed)
		plan := schedule.Solve(script.Snapshot())
		if err := enginetest.Check(script, plan); err != nil {
			t.Errorf("seed %d: %v\n%s----\n%s", seed, err, enginetest.Format(script), enginetest.Print(plan))
		}
		if got, want := countUnplaced(plan), countUnplaced(without); got > want {
			t.Errorf("seed %d: leaves out %d pods, without those to come %d", seed, got, want)
		}
		for _, l := range plan.Launches {
			if len(l.Pods) == 0 {
				t.Errorf("seed %d: a launch without pods", seed)
			}
		}
		if enginetest.Print(plan) != enginetest.Print(without) {
			different++
		}
		again := schedule.Solve(shuffle(script, seed).Snapshot())
		if diff := cmp.Diff(enginetest.Print(plan), enginetest.Print(again)); diff != "" {
			t.Errorf("seed %d: the order of events matters:\n%s", seed, diff)
		}
	}
	if t.Logf("%d of 150 plans differ", different); different < 12 {
		t.Errorf("%d of 150 plans differ, want 12 or more", different)
	}
}

// addOwners gives pods that differ in their number alone one owner, which owes more of them.
func addOwners(script *enginetest.Script, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 17))
	script.Owed = map[string]int{}
	for i := range script.Pods {
		p := &script.Pods[i]
		owner, _, _ := strings.Cut(p.Name, "-")
		p.Owner = owner
		if _, known := script.Owed[owner]; !known {
			script.Owed[owner] = random.IntN(60) - 20
		}
	}
}
