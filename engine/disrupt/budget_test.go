// SPDX-License-Identifier: Apache-2.0

package disrupt

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Rule BUDGET-1: the strictest budget that is active and applies to the cause decides.
func TestBudgets(t *testing.T) {
	always := func(nodes int, causes ...Cause) Budget { return Budget{Nodes: nodes, Active: true, Causes: causes} }
	percent := func(n int) Budget { return Budget{Nodes: n, Percent: true, Active: true} }
	asleep := Budget{Nodes: 0, Until: noon.Add(time.Hour)}
	for name, tc := range map[string]struct {
		budgets []Budget
		nodes   int
		cause   Cause
		want    int
		until   time.Time
	}{
		"none":                  {nil, 7, Drifted, math.MaxInt32, time.Time{}},
		"a count":               {[]Budget{always(2)}, 7, Drifted, 2, time.Time{}},
		"rounded up":            {[]Budget{percent(10)}, 11, Empty, 2, time.Time{}},
		"of one":                {[]Budget{percent(1)}, 1, Empty, 1, time.Time{}},
		"of none":               {[]Budget{percent(10)}, 0, Empty, 0, time.Time{}},
		"exact":                 {[]Budget{percent(10)}, 50, Empty, 5, time.Time{}},
		"nothing":               {[]Budget{percent(0)}, 50, Empty, 0, time.Time{}},
		"the strictest":         {[]Budget{percent(50), always(3), always(9)}, 10, Empty, 3, time.Time{}},
		"not yet":               {[]Budget{percent(50), asleep}, 10, Empty, 5, noon.Add(time.Hour)},
		"for others":            {[]Budget{percent(50), always(0, Drifted)}, 10, Empty, 5, time.Time{}},
		"soft expiry is drift":  {[]Budget{percent(50), always(0, Drifted)}, 10, Expired, 0, time.Time{}},
		"broken, asleep, other": {[]Budget{percent(50), {Invalid: true, Causes: []Cause{Drifted}}}, 10, Empty, 0, time.Time{}},
		"for no cause":          {[]Budget{{Nodes: 0, Active: true, Causes: []Cause{}}}, 10, Empty, math.MaxInt32, time.Time{}},
	} {
		p := Pool{Budgets: tc.budgets}
		got, until := MaxDown(&p, tc.nodes, tc.cause)
		if got != tc.want || !until.Equal(tc.until) {
			t.Errorf("%s: %d until %s, want %d until %s", name, got, until, tc.want, tc.until)
		}
	}
}

// Rule BUDGET-2: uninitialized nodes do not count, and nodes that are not ready count as down.
func TestCountNodes(t *testing.T) {
	up := noon.Add(-time.Hour)
	in := Input{
		Nodes: []Node{
			{Key: "fine", Pool: "a", Initialized: up, Ready: true},
			{Key: "not ready", Pool: "a", Initialized: up},
			{Key: "leaving", Pool: "a", Initialized: up, Ready: true, MarkedForDeletion: true},
			{Key: "gone", Pool: "a", Initialized: up, MarkedForDeletion: true, Terminating: true},
			{Key: "chosen", Pool: "a", Initialized: up, Ready: true},
			{Key: "new", Pool: "a"},
			{Key: "other", Pool: "b", Initialized: up, Ready: true},
		},
		Underway: []Move{{Nodes: []string{"chosen", "leaving"}}},
	}
	counts := CountNodes(&in)
	if diff := cmp.Diff(map[string]NodeCount{"a": {Nodes: 4, Down: 3}, "b": {Nodes: 1}}, counts); diff != "" {
		t.Error(diff)
	}
	p := Pool{Name: "a", Budgets: []Budget{{Nodes: 100, Percent: true, Active: true, Until: noon}}}
	n, kept := AllowedDisruptions(&p, counts["a"], Expired)
	if n != 1 || kept.Because != BudgetExhausted || kept.Detail != "No allowed disruptions for disruption reason Drifted due to blocking budget" ||
		!kept.Until.Equal(noon) || kept.Facts.Text("down") != "3" || kept.Facts.Text("allowed") != "4" {
		t.Errorf("%d, %+v", n, kept)
	}
	p.Budgets[0].Nodes = 25
	if n, _ := AllowedDisruptions(&p, counts["a"], Drifted); n != 0 {
		t.Errorf("%d may go although more are down than may be", n)
	}
}
