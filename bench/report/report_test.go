package report

import (
	"strings"
	"testing"
)

func TestRatiosNeedAFairComparison(t *testing.T) {
	upstream := Side{Seconds: 10, USDPerHour: 4, Unscheduled: 1}
	for _, test := range []struct {
		name    string
		row     Row
		speedup float64
		cost    float64
	}{
		{"fair", Row{Karve: &Side{Seconds: 2, USDPerHour: 3}, Upstream: &upstream}, 5, 0.75},
		{"ours left more pods", Row{Karve: &Side{Seconds: 2, Unscheduled: 2}, Upstream: &upstream}, 0, 0},
		{"our plan is wrong", Row{Karve: &Side{Seconds: 2}, Upstream: &upstream, Invalid: "two pods on one port"}, 0, 0},
		{"nothing to compare with", Row{Karve: &Side{Seconds: 2}}, 0, 0},
		{"upstream buys nothing", Row{Karve: &Side{Seconds: 2}, Upstream: &Side{Seconds: 4}}, 2, 0},
	} {
		r := test.row
		r.Compare()
		if r.Speedup != test.speedup || r.CostRatio != test.cost {
			t.Errorf("%s: speedup %v and cost ratio %v, want %v and %v", test.name, r.Speedup, r.CostRatio, test.speedup, test.cost)
		}
	}
}

func TestTableShowsBothSides(t *testing.T) {
	row := Row{Scenario: "diverse 1", Karve: &Side{Seconds: 0.5, Nodes: 7}, Upstream: &Side{Seconds: 2, Nodes: 9}}
	row.Compare()
	var b strings.Builder
	if err := Print(&b, []Row{{Environment: &Environment{Go: "go9"}}, row}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"go9", "diverse 1", "upstream", "4×"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in the table:\n%s", want, b.String())
		}
	}
}
