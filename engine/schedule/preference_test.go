// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/schedule"
)

// TestRespectLosesNobody (Rule PREFERENCE-1): whatever pods prefer, a plan that respects it
// is valid, places as many pods of every priority as one that ignores it, and costs at most
// the surplus more.
func TestRespectLosesNobody(t *testing.T) {
	honoured, asked := 0, 0
	for seed := range uint64(400) {
		script := enginetest.RandomFull(seed, 1+int(seed%30))
		script.Settings.Preferences = cluster.Ignore
		ignored := schedule.Solve(script.Snapshot())
		script.Settings.Preferences = cluster.Respect
		for _, surplus := range []int{0, 100, 1000, cluster.UnlimitedPreferenceSurplus} {
			script.Settings.PreferenceSurplusPermille = surplus
			plan := schedule.Solve(script.Snapshot())
			if err := enginetest.Check(script, plan); err != nil {
				t.Errorf("seed %d, surplus %d: %v\n%s\n%s", seed, surplus, err, enginetest.Format(script), enginetest.Print(plan))
			}
			had, have := placedByPriority(script, ignored), placedByPriority(script, plan)
			for priority, n := range had {
				if have[priority] < n {
					t.Errorf("seed %d, surplus %d: %d pods of priority %d are placed, %d without preferences", seed, surplus, have[priority], priority, n)
				}
			}
			if more := plan.Price() - ignored.Price(); surplus >= 0 && int64(more)*1000 > int64(ignored.Price())*int64(surplus) {
				t.Errorf("seed %d: costs %s instead of %s, the surplus is %d thousandths", seed, plan.Price(), ignored.Price(), surplus)
			}
			honoured, asked = honoured+plan.Preferences.Honoured, asked+plan.Preferences.Asked
		}
	}
	t.Logf("%d of %d preferences honoured", honoured, asked)
	if honoured*3 < asked {
		t.Errorf("only %d of %d preferences are honoured", honoured, asked)
	}
}

// TestNothingIsPaidInVain (Rule PREFERENCE-1): a plan that costs more for preferences honours more of them
// than the plan that knows none, or heavier ones.
func TestNothingIsPaidInVain(t *testing.T) {
	paid := 0
	for seed := range uint64(300) {
		script := enginetest.RandomFull(seed, 1+int(seed%30))
		script.Settings.Preferences, script.Settings.PreferenceSurplusPermille = cluster.Respect, cluster.UnlimitedPreferenceSurplus
		pays, inVain := schedule.PaysForPreferences(script.Snapshot())
		if pays {
			paid++
		}
		if inVain {
			t.Errorf("seed %d: no more preferences hold than for nothing", seed)
		}
	}
	if t.Logf("%d of 300 plans cost more for preferences", paid); paid < 30 {
		t.Errorf("%d of 300 plans cost more for preferences, want 30 or more", paid)
	}
}

func placedByPriority(s *enginetest.Script, p schedule.Plan) map[int32]int {
	placed := map[string]bool{}
	for _, l := range p.Launches {
		for _, ref := range l.Pods {
			placed[ref.UID] = true
		}
	}
	for _, n := range p.Nominations {
		for _, ref := range n.Pods {
			placed[ref.UID] = true
		}
	}
	out := map[int32]int{}
	for _, pod := range s.Pods {
		if placed[pod.UID] {
			out[pod.Priority]++
		}
	}
	return out
}

// TestUpstreamsPreferencePods (Rule PREFERENCE-3): with no bound on the surplus, pods that
// prefer a node of their own get one each, as in Karpenter. With 10 % they share the nodes
// that they would share without the preference, in the zone they prefer.
func TestUpstreamsPreferencePods(t *testing.T) {
	const pods = 60
	script := func(settings string) *enginetest.Script {
		var text strings.Builder
		fmt.Fprintln(&text, "settings", settings)
		for cores := 1; cores <= 32; cores++ {
			fmt.Fprintf(&text, "type T%d cpu=%d mem=%dGi price=%d.00 zones=1,2,3\n", cores, cores, 2*cores, cores)
		}
		fmt.Fprintln(&text, "pool all")
		fmt.Fprintf(&text, "pods web x%d cpu=500m mem=1Gi label:app=web prefer~1:zone=In:1 anti-affinity~10=zone anti-affinity~1=host\n", pods)
		s, err := enginetest.Parse(text.String())
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	together := len(schedule.Solve(script("preferences=Ignore").Snapshot()).Launches)
	for _, tc := range []struct {
		settings string
		nodes    int
		honoured int
	}{
		{"preferences=Respect surplus=unlimited", pods, 2 * pods}, // no two zones are left apart
		{"preferences=Respect surplus=10%", together, pods},
		{"preferences=Ignore", together, 0},
	} {
		s := script(tc.settings)
		plan := schedule.Solve(s.Snapshot())
		if err := enginetest.Check(s, plan); err != nil {
			t.Errorf("%s: %v", tc.settings, err)
		}
		if len(plan.Launches) != tc.nodes || plan.Preferences.Honoured != tc.honoured {
			t.Errorf("%s: %d nodes and %+v, want %d nodes and %d preferences honoured", tc.settings, len(plan.Launches), plan.Preferences, tc.nodes, tc.honoured)
		}
	}
}
