// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/schedule"
)

// BenchmarkAllRepelEachOther plans for pods each of which allows no other on its node.
func BenchmarkAllRepelEachOther(b *testing.B) {
	for _, n := range []int{125, 250, 500, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			snapshot := repellers(b, n).Snapshot()
			for b.Loop() {
				schedule.Solve(snapshot)
			}
		})
	}
}

// repellers are pods that each have a label of their own and anti-affinity to all pods with
// another.
func repellers(t testing.TB, n int) *enginetest.Script {
	t.Helper()
	script, err := enginetest.Parse("type D2 cpu=2 mem=8Gi price=0.10 zones=1,2,3\ntype D4 cpu=4 mem=16Gi price=0.20 zones=1,2,3\npool all")
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		name := fmt.Sprint("w", i)
		others := cluster.Selector{Namespaces: []string{"default"}, Labels: cluster.Term{{Key: "app", Operator: constraint.NotIn, Values: []string{name}}}}
		script.Pods = append(script.Pods, cluster.Pod{
			PodRef: cluster.PodRef{Namespace: "default", Name: name, UID: name}, Labels: map[string]string{"app": name},
			Requests:     quantity.Amounts{quantity.NameCPU: 500, quantity.NameMemory: 1 << 30, quantity.NamePods: 1},
			AntiAffinity: []cluster.PodAffinityTerm{{Key: cluster.LabelHostname, Selector: others}},
		})
	}
	return script
}

// TestImproveIsBounded (Rule PLAN-9): for pods with anti-affinity to all others, the number
// of steps does not grow with the number of pods once nodes are left unexamined, and the plan
// says how many are.
func TestImproveIsBounded(t *testing.T) {
	taken := map[int]int{}
	for _, n := range []int{250, 500, 1000} {
		script := repellers(t, n)
		plan, steps := schedule.SolveWithin(script.Snapshot(), schedule.MostSteps)
		if len(plan.Launches) != n || len(plan.Unplaced) > 0 {
			t.Errorf("%d pods: %d launches, %d groups left out", n, len(plan.Launches), len(plan.Unplaced))
		}
		if want := max(0, n-256); plan.Unexamined(schedule.Improvement) != want {
			t.Errorf("%d pods: %d launches left alone, want %d", n, plan.Unexamined(schedule.Improvement), want)
		}
		taken[n] = steps
	}
	if taken[500] > schedule.MostSteps/8 || taken[1000] > taken[500] {
		t.Errorf("steps by pods: %v; want at most %d, and no more for 1000 than for 500", taken, schedule.MostSteps/8)
	}
}

// TestImproveStopsWhereStepsEnd (Rule PLAN-9): with any number of steps the plan is valid and
// the same each time, exceeds the number by one check at most, and says when nodes were left
// unexamined.
func TestImproveStopsWhereStepsEnd(t *testing.T) {
	const look = 100 // steps of one check: the kinds of pods on one node, and one more
	cut := 0
	for seed := range uint64(60) {
		script := enginetest.RandomFull(seed, 30)
		script.Settings.Preferences = cluster.Ignore
		all, needed := schedule.SolveWithin(script.Snapshot(), schedule.MostSteps)
		for _, steps := range []int{0, 1, needed / 2, needed - 1} {
			plan, taken := schedule.SolveWithin(script.Snapshot(), max(0, steps))
			if err := enginetest.Check(script, plan); err != nil {
				t.Errorf("seed %d, %d steps: %v\n%s\n%s", seed, steps, err, enginetest.Format(script), enginetest.Print(plan))
			}
			if taken > max(0, steps)+look {
				t.Errorf("seed %d, %d steps: %d taken", seed, steps, taken)
			}
			if plan.Unexamined(schedule.Improvement) == 0 && plan.Price() > all.Price() {
				t.Errorf("seed %d, %d steps: costs %s instead of %s and does not say why", seed, steps, plan.Price(), all.Price())
			}
			again, _ := schedule.SolveWithin(shuffle(script, seed).Snapshot(), max(0, steps))
			if diff := cmp.Diff(enginetest.Print(plan), enginetest.Print(again)); diff != "" || plan.Unexamined(schedule.Improvement) != again.Unexamined(schedule.Improvement) {
				t.Errorf("seed %d, %d steps: not the same plan again:\n%s", seed, steps, diff)
			}
			cut += min(1, plan.Unexamined(schedule.Improvement))
		}
	}
	if cut < 30 {
		t.Errorf("only %d plans were cut short: the clusters no longer exercise it", cut)
	}
}
