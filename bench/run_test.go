// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/karve-dev/karve/bench/karve"
	"github.com/karve-dev/karve/bench/measure"
	"github.com/karve-dev/karve/bench/report"
)

// A run for the developer's eyes goes all the way and saves nothing.
func TestPartialRunSavesNothing(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "results")
	if err := run(t.Context(), []string{"-quick", "-karve-only", "-only", "^diverse 500$|ignore", "-results", folder}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Errorf("results of a partial run: %v", err)
	}
}

// A whole run leaves numbers, a page and a plot of both sides.
func TestSave(t *testing.T) {
	folder := t.TempDir()
	c, err := parse([]string{"-quick", "-results", folder})
	if err != nil {
		t.Fatal(err)
	}
	var r report.Results
	for _, it := range c.items() {
		if it.shrink != nil {
			r.Consolidations = append(r.Consolidations, report.Consolidation{Scenario: it.name, Karve: &report.ConsolidationSide{}})
			continue
		}
		r.Rows = append(r.Rows, report.Row{Scenario: it.name, Karve: &report.Side{Seconds: 0.1}, Upstream: &report.Side{Seconds: 7}})
	}
	if err := c.save(c.environment(), r); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string][]string{
		"latest.json": {`"scenario": "diverse 500"`, `"scenario": "consolidate-200"`}, "README.md": {"| diverse 500 |", "| consolidate-200 |", "commit"}, plotFile: {"pending pods", "existing nodes", "upstream"},
	} {
		text, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil {
			t.Error(err)
		}
		for _, w := range want {
			if !strings.Contains(string(text), w) {
				t.Errorf("no %q in %s:\n%s", w, file, text)
			}
		}
	}
}

// Every scenario has a name of its own, full or quick, and the plot finds its rows.
func TestItems(t *testing.T) {
	for _, quick := range []bool{true, false} {
		c := config{quick: quick}
		var names []string
		var rows []report.Row
		for _, it := range c.items() {
			if slices.Contains(names, it.name) {
				t.Errorf("two scenarios are called %s", it.name)
			}
			names = append(names, it.name)
			rows = append(rows, report.Row{Scenario: it.name, Karve: &report.Side{Seconds: 1}})
		}
		for _, prefix := range []string{podsRow, nodesRow} {
			points := growth(rows, prefix, "").Series[0].Points
			if len(points) < 3 {
				t.Errorf("%d points for %q", len(points), prefix)
			}
		}
	}
}

// Upstream's line ends after a size that took it too long.
func TestTooSlow(t *testing.T) {
	for _, c := range []struct {
		row  report.Row
		want bool
	}{
		{report.Row{Scenario: nodesRow + "500", Upstream: &report.Side{Seconds: 1}}, false},
		{report.Row{Scenario: nodesRow + "500", Upstream: &report.Side{Seconds: 100}}, true},
		{report.Row{Scenario: nodesRow + "500"}, true},
		{report.Row{Scenario: "memory"}, false},
	} {
		if got := tooSlow(c.row); got != c.want {
			t.Errorf("%+v: %v", c.row, got)
		}
	}
}

// No plan leaves out more pods, costs more, or takes much more memory to make than the saved one. Memory
// stands for time, which a busy computer stretches: a decision that makes further plans allocates for each.
func TestNothingDearerThanSaved(t *testing.T) {
	saved, err := report.Load(filepath.Join("results", "latest.json"))
	if err != nil {
		t.Fatal(err)
	}
	was := map[string]*report.Side{}
	for _, r := range saved.Rows {
		was[r.Scenario] = r.Karve
	}
	compared := 0
	for _, it := range (config{}).items() {
		before := was[it.name]
		if it.make == nil || before == nil {
			continue
		}
		s, err := it.make(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		compared++
		run := karve.New(s).Repeat(measure.Patience{Runs: 2, Most: time.Hour})
		unplaced := 0
		for _, u := range run.Plan.Unplaced {
			unplaced += len(u.Pods)
		}
		if unplaced > before.Unscheduled {
			t.Errorf("%s: %d pods are left out, saved are %d", it.name, unplaced, before.Unscheduled)
		}
		if price := run.Plan.Price().USD(); price > before.USDPerHour+1e-6 {
			t.Errorf("%s: $%.6f/h, saved are $%.6f", it.name, price, before.USDPerHour)
		}
		if bytes := measure.Best(run.Samples).Bytes; bytes > 3*before.BytesPerOp {
			t.Errorf("%s: a decision takes %d bytes, saved are %d", it.name, bytes, before.BytesPerOp)
		}
	}
	if compared < 10 {
		t.Errorf("compared %d rows, want 10 or more", compared)
	}
}
