// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestRows: saved rows come back in order, one for each scale and policy, and a side that was
// not there is null.
func TestRows(t *testing.T) {
	ours := Outcome{Hours: 12, USD: 30, Bound: 20, Evictions: 6, Young: 3, PodDays: 2, Pending: time.Minute, CPU: time.Second, Longest: time.Millisecond, PeakNodes: 4}
	want := Figures{USD: 30, EvictionsPerPodDay: 3, PendingPodSeconds: 60, YoungEvictionsShare: 0.5, DecisionCPUSeconds: 1, LongestDecisionSeconds: 0.001, PeakNodes: 4}
	if got := ours.Figures(); got != want {
		t.Errorf("figures %+v, want %+v", got, want)
	}
	theirs := Outcome{USD: 40}.Figures()
	row := func(scale int, policy string, usd float64) Row {
		f := want
		f.USD = usd
		return Row{Scale: scale, Policy: policy, Hours: 12, Karve: f, BoundUSD: 20}
	}
	var rows []Row
	for _, r := range []Row{row(1, "WhenEmpty", 1), row(20, "Balanced", 2), row(20, "WhenEmpty", 3), row(20, "Balanced", 4)} {
		rows = Replace(rows, r)
	}
	rows[0].Upstream = &theirs
	file := filepath.Join(t.TempDir(), "trace.json")
	if err := Save(file, rows); err != nil {
		t.Fatal(err)
	}
	loaded, err := Load(file)
	if err != nil || !reflect.DeepEqual(loaded, rows) {
		t.Errorf("%v: %+v, want %+v", err, loaded, rows)
	}
	var table bytes.Buffer
	if err := Print(&table, loaded); err != nil {
		t.Fatal(err)
	}
	order := []string{"1/20 WhenEmpty 12.0 karve 3.00", "upstream 40.00", "Balanced 12.0 karve 4.00", "1/1 WhenEmpty", "CC-BY 4.0"}
	text := strings.Join(strings.Fields(table.String()), " ")
	for _, want := range order {
		_, after, found := strings.Cut(text, want)
		if !found {
			t.Fatalf("no %q in its place:\n%s", want, table.String())
		}
		text = after
	}
	if svg := Picture(loaded); strings.Count(svg, "<circle") != 4 || !strings.Contains(svg, "1/20 of the trace") || !strings.Contains(svg, "CC-BY 4.0") {
		t.Errorf("the picture lacks something:\n%s", svg)
	}
}
