// SPDX-License-Identifier: Apache-2.0

// Package report writes the results of a run: as JSON, and as tables on a terminal or in
// Markdown. It prints a ratio only
// where both sides had the same inputs and ours placed no fewer pods; it measures
// nothing.
package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Side is the result of one scheduler on a scenario.
type Side struct {
	Seconds       float64 `json:"seconds"`
	PodsPerSecond float64 `json:"pods_per_second"`
	// Nodes are those to launch, USDPerHour their price at the cheapest accepted offerings.
	Nodes      int     `json:"nodes"`
	USDPerHour float64 `json:"usd_per_hour"`
	// LowerBound is a price that no plan can beat; zero when it is not known.
	LowerBound  float64 `json:"lower_bound_usd_per_hour"`
	Unscheduled int     `json:"unscheduled"`
	BytesPerOp  uint64  `json:"bytes_per_op"` // allocated by one decision

	AllocsPerOp uint64 `json:"allocs_per_op,omitempty"`
	// CPU is what all threads computed in the best run, seconds; zero when it is not known.
	CPU float64 `json:"cpu_seconds,omitempty"`
	// Runs is how many Seconds is the best of, and Median their median.
	Runs   int     `json:"runs,omitempty"`
	Median float64 `json:"median_seconds,omitempty"`
	// Solve is planning alone, without taking in the pods; zero when it is not known.
	Solve float64 `json:"solve_seconds,omitempty"`
}

// Row is one scenario.
type Row struct {
	Scenario string `json:"scenario"`
	Karve    *Side  `json:"karve"`
	Upstream *Side  `json:"upstream"` // nil where upstream did not run
	// Speedup is upstream's time over ours, CostRatio our price over upstream's; nil
	// where that means nothing.
	Speedup   *float64 `json:"speedup"`
	CostRatio *float64 `json:"cost_ratio"`

	// CPUSpeedup is Speedup by computing time: other load on the computer
	// disturbs elapsed time, of long runs most, and CPU time hardly.
	CPUSpeedup *float64 `json:"cpu_speedup,omitempty"`
	Note       string   `json:"note,omitempty"`
	// Invalid says what is wrong with our plan: it is then no answer, however fast.
	Invalid string `json:"invalid,omitempty"`

	Origin
}

// Origin says when a row was measured, and of which commit.
type Origin struct {
	Commit   string `json:"commit,omitempty"`
	Measured string `json:"measured,omitempty"` // RFC 3339
}

// SetOrigin says of all rows where they come from.
func (r *Results) SetOrigin(o Origin) {
	for i := range r.Rows {
		r.Rows[i].Origin = o
	}
	for i := range r.Consolidations {
		r.Consolidations[i].Origin = o
	}
}

// Environment is where and how a run took place.
type Environment struct {
	Machine, Go, Commit, Started string
	// Method is what the numbers mean, a sentence or two each.
	Method []string
}

// Compare fills in the ratios, where they mean something.
func (r *Row) Compare() {
	if r.Invalid != "" {
		r.AddNote("INVALID PLAN, no ratio: " + r.Invalid)
		return
	}
	k, u := r.Karve, r.Upstream
	if k == nil || u == nil {
		return
	}
	if k.Unscheduled > u.Unscheduled {
		r.AddNote(fmt.Sprintf("no ratio: ours left %d pods, upstream %d", k.Unscheduled, u.Unscheduled))
		return
	}
	r.Speedup = ratio(u.Seconds, k.Seconds)
	if u.CPU > 0 {
		r.CPUSpeedup = ratio(u.CPU, k.CPU)
	}
	if k.Unscheduled < u.Unscheduled {
		r.AddNote(fmt.Sprintf("no cost ratio: upstream left %d pods, ours %d", u.Unscheduled, k.Unscheduled))
		return
	}
	r.CostRatio = ratio(k.USDPerHour, u.USDPerHour)
}

// ratio is a over b; nil when there is none.
func ratio(a, b float64) *float64 {
	if b == 0 {
		return nil
	}
	x := a / b
	return &x
}

// AddNote appends to the note.
func (r *Row) AddNote(words string) { r.Note = join(r.Note, words) }

// Save writes the results as JSON, making the folder when there is none.
func Save(path string, r Results) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the results as JSON: %w", err)
	}
	return write(path, append(text, '\n'))
}

func write(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making the results' folder: %w", err)
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return fmt.Errorf("saving the results: %w", err)
	}
	return nil
}
