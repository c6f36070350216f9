// SPDX-License-Identifier: Apache-2.0

package karve

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karve-dev/karve/bench/scenario"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/schedule"
)

func small(t *testing.T) []*scenario.Scenario {
	t.Helper()
	azure, err := scenario.Azure(t.Context(), 200, false)
	if err != nil {
		t.Fatal(err)
	}
	return []*scenario.Scenario{
		scenario.Diverse(50), scenario.Existing(6, 60, 40), azure,
		scenario.Preferences(20, cluster.Settings{Preferences: cluster.Respect, PreferenceSurplusPermille: 100}),
		scenario.Preferences(20, cluster.Settings{Preferences: cluster.Respect, PreferenceSurplusPermille: cluster.UnlimitedPreferenceSurplus}),
		scenario.Preferences(20, cluster.Settings{Preferences: cluster.Ignore}),
	}
}

// The engine's checker accepts every measured plan.
func TestPlansAreValid(t *testing.T) {
	for _, s := range small(t) {
		plan, _ := New(s).Decide()
		if err := enginetest.Check(Script(s), plan); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		if err := Audit(s, plan); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		for _, u := range plan.Unplaced {
			t.Errorf("%s: %d pods unplaced: %s %s", s.Name, len(u.Pods), u.Because, u.Detail)
		}
	}
}

// Every run must start from the same snapshot.
func TestRepeatedDecisionsAreTheSame(t *testing.T) {
	for _, s := range small(t) {
		c := New(s)
		first, _ := c.Decide()
		c.Forget()
		second, _ := c.Decide()
		if diff := cmp.Diff(first, second); diff != "" {
			t.Errorf("%s: the second decision differs:\n%s", s.Name, diff)
		}
	}
}

func TestArrivalsAreBound(t *testing.T) {
	s := scenario.Existing(6, 60, 0)
	got := New(s).Arrive(scenario.Diverse(10).Pending)
	if len(got.Samples) != 10 || got.Bound+got.Launched+got.Unplaced != 10 || got.Bound == 0 {
		t.Errorf("arrivals %+v", got)
	}
}

func TestAuditFindsFaults(t *testing.T) {
	s := scenario.Diverse(50)
	plan, _ := New(s).Decide()
	if len(plan.Launches) == 0 {
		t.Fatal("the plan launches no node")
	}
	for name, spoil := range map[string]func(*schedule.Launch){
		"a pod twice":      func(l *schedule.Launch) { l.Pods = append(l.Pods, l.Pods[0]) },
		"a pod missing":    func(l *schedule.Launch) { l.Pods = l.Pods[1:] },
		"a node too small": func(l *schedule.Launch) { l.Offerings[0].Type = "fake-it-0"; l.Daemons = map[string]int64{"cpu": 1000} },
	} {
		spoiled, _ := New(s).Decide()
		spoil(&spoiled.Launches[0])
		if Audit(s, spoiled) == nil {
			t.Errorf("%s is not noticed", name)
		}
	}
}
