// SPDX-License-Identifier: Apache-2.0

package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRatiosNeedAFairComparison(t *testing.T) {
	upstream := Side{Seconds: 10, USDPerHour: 4, Unscheduled: 1}
	of := func(v float64) *float64 { return &v }
	for _, test := range []struct {
		name    string
		row     Row
		speedup *float64
		cost    *float64
	}{
		{"fair", Row{Karve: &Side{Seconds: 2, USDPerHour: 3, Unscheduled: 1}, Upstream: &upstream}, of(5), of(0.75)},
		{"upstream left more pods", Row{Karve: &Side{Seconds: 2, USDPerHour: 3}, Upstream: &upstream}, of(5), nil},
		{"ours left more pods", Row{Karve: &Side{Seconds: 2, Unscheduled: 2}, Upstream: &upstream}, nil, nil},
		{"our plan is wrong", Row{Karve: &Side{Seconds: 2}, Upstream: &upstream, Invalid: "two pods on one port"}, nil, nil},
		{"nothing to compare with", Row{Karve: &Side{Seconds: 2}}, nil, nil},
		{"upstream launches nothing", Row{Karve: &Side{Seconds: 2}, Upstream: &Side{Seconds: 4}}, of(2), nil},
	} {
		r := test.row
		r.Compare()
		if diff := cmp.Diff([]*float64{test.speedup, test.cost}, []*float64{r.Speedup, r.CostRatio}); diff != "" {
			t.Errorf("%s: speedup and cost ratio (-want +got):\n%s", test.name, diff)
		}
	}
}

// rows is one fair comparison and one measurement of ours alone.
func rows() []Row {
	out := []Row{
		{
			Scenario: "diverse 1",
			Karve:    &Side{Seconds: 0.5, PodsPerSecond: 2, Nodes: 7, USDPerHour: 3, LowerBound: 2.5, BytesPerOp: 100, Runs: 9},
			Upstream: &Side{Seconds: 2, PodsPerSecond: 0.5, Nodes: 9, USDPerHour: 4, LowerBound: 2.5, BytesPerOp: 900, Runs: 1},
			Origin:   Origin{Commit: "abc"},
		},
		{Scenario: "alone", Karve: &Side{Seconds: 1, Unscheduled: 3}, Note: "why"},
	}
	out[0].Compare()
	return out
}

// results has a cluster besides that both sides consolidate.
func results() Results {
	c := Consolidation{
		Scenario: "consolidate-1", LowerBound: 2, Note: "how many pods",
		Karve:    &ConsolidationSide{PassSeconds: 0.5, ConvergeSeconds: 1, Before: 8, After: 3, Nodes: 4, Evictions: 100, Rounds: 2},
		Upstream: &ConsolidationSide{PassSeconds: 5, ConvergeSeconds: 40, Before: 8, After: 4, Nodes: 5, Evictions: 160, TimedOut: true},
	}
	soon := 70
	c.AtUpstreamsPrice = &soon
	c.Compare()
	return Results{Rows: rows(), Consolidations: []Consolidation{c}}
}

// A side that breaks the scheduler's rules is compared with nothing.
func TestInvalidPlacementsAreNotCompared(t *testing.T) {
	c := results().Consolidations[0]
	c.Speedup, c.CostRatio, c.EvictionRatio = nil, nil, nil
	c.Karve.Invalid = "pod p"
	c.Compare()
	if c.Speedup != nil || c.CostRatio != nil || c.EvictionRatio != nil || !strings.Contains(c.Note, "INVALID PLACEMENT by karve") {
		t.Errorf("%+v", c)
	}
}

// The form of the JSON is what others read: these names and no others.
func TestSavedForm(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results", "latest.json")
	if err := Save(path, results()); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const want = `[
  {
    "scenario": "diverse 1",
    "karve": {
      "seconds": 0.5,
      "pods_per_second": 2,
      "nodes": 7,
      "usd_per_hour": 3,
      "lower_bound_usd_per_hour": 2.5,
      "unscheduled": 0,
      "bytes_per_op": 100,
      "runs": 9
    },
    "upstream": {
      "seconds": 2,
      "pods_per_second": 0.5,
      "nodes": 9,
      "usd_per_hour": 4,
      "lower_bound_usd_per_hour": 2.5,
      "unscheduled": 0,
      "bytes_per_op": 900,
      "runs": 1
    },
    "speedup": 4,
    "cost_ratio": 0.75,
    "commit": "abc"
  },
  {
    "scenario": "alone",
    "karve": {
      "seconds": 1,
      "pods_per_second": 0,
      "nodes": 0,
      "usd_per_hour": 0,
      "lower_bound_usd_per_hour": 0,
      "unscheduled": 3,
      "bytes_per_op": 0
    },
    "upstream": null,
    "speedup": null,
    "cost_ratio": null,
    "note": "why"
  },
  {
    "scenario": "consolidate-1",
    "karve": {
      "pass_seconds": 0.5,
      "converge_seconds": 1,
      "usd_per_hour_before": 8,
      "usd_per_hour_after": 3,
      "nodes_after": 4,
      "evictions": 100,
      "timed_out": false,
      "rounds": 2
    },
    "upstream": {
      "pass_seconds": 5,
      "converge_seconds": 40,
      "usd_per_hour_before": 8,
      "usd_per_hour_after": 4,
      "nodes_after": 5,
      "evictions": 160,
      "timed_out": true
    },
    "lower_bound_usd_per_hour": 2,
    "karve_evictions_at_upstream_price": 70,
    "speedup": 40,
    "cost_ratio": 0.75,
    "evictions_per_dollar_ratio": null,
    "note": "how many pods"
  }
]
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

// Saved results are read again as they were, and newer rows take the place of older ones.
func TestLoadAndMerge(t *testing.T) {
	path := filepath.Join(t.TempDir(), "latest.json")
	if err := Save(path, results()); err != nil {
		t.Fatal(err)
	}
	got, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(results(), got); diff != "" {
		t.Errorf("read again (-want +got):\n%s", diff)
	}
	newer := Results{Rows: []Row{{Scenario: "alone", Note: "newer"}, {Scenario: "first, p50"}, {Scenario: "first, p99"}}}
	merged := got.Merge(newer, []string{"first", "diverse 1", "alone", "consolidate-1"})
	var names []string
	for _, r := range merged.Rows {
		names = append(names, r.Scenario+" "+r.Note)
	}
	if diff := cmp.Diff([]string{"first, p50 ", "first, p99 ", "diverse 1 ", "alone newer"}, names); diff != "" || len(merged.Consolidations) != 1 {
		t.Errorf("merged (-want +got):\n%s", diff)
	}
}

func TestTablesShowBothSides(t *testing.T) {
	e := Environment{Go: "go9", Method: []string{"best of all"}}
	var b strings.Builder
	if err := Print(&b, e, results()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "README.md")
	if err := SaveMarkdown(path, "scaling.svg", e, results()); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{b.String(), string(page)} {
		for _, want := range []string{"go9", "diverse 1", "upstream", "4×", "0.750", "why", "best of all", "consolidate-1", "50.0 %", "70 evictions"} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in:\n%s", want, text)
			}
		}
	}
}
