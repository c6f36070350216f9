// SPDX-License-Identifier: Apache-2.0

// Package report gathers what the drills measure of karve's Azure provider into one
// table and one file. Its test runs them, as virtual time needs a test around it:
//
//	go test ./test/report -run TestFigures -write=FILE
//
// It refuses to fill in what was not measured: there is no default for any figure.
package report

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// Figures are what was measured. The zero Figures were not.
type Figures struct {
	// FirstAttemptSuccess is the share of VMs that came by their first launch where
	// many things are scarce, BaselineFirstAttemptSuccess that of trying one offer for each
	// NodeClaim, as the incumbent does.
	FirstAttemptSuccess         float64 `json:"first_attempt_success"`
	BaselineFirstAttemptSuccess float64 `json:"baseline_first_attempt_success"`
	// ARMWritesPerNode leaves out the one delete that ends each; ARMReadsPerNode are all from
	// the launches to the end, of a thousand. Of several runs they are the worst.
	ARMWritesPerNode  float64 `json:"arm_writes_per_node"`
	ARMReadsPerNode   float64 `json:"arm_reads_per_node"`
	ThrottledRequests int     `json:"throttled_requests"`
	// SecondsTo1000Nodes is until the last of them has joined, the median of several runs.
	SecondsTo1000Nodes float64 `json:"seconds_0_to_1000_nodes"`
	// FaultsRun and FaultPairsRun are runs with so many VMs each; what follows is found
	// in all of them together.
	FaultsRun      int `json:"faults_run"`
	FaultPairsRun  int `json:"fault_pairs_run"`
	Leaked         int `json:"leaked"`
	Duplicates     int `json:"duplicates"`
	ForeignTouched int `json:"foreign_touched"`
	// NoticeToReplacementP99Seconds is of 300 spot VMs out of 1,000 within 20 seconds.
	NoticeToReplacementP99Seconds float64 `json:"notice_to_replacement_p99_seconds"`
}

// Table is for people, in Markdown.
func (f Figures) Table() string {
	var b strings.Builder
	b.WriteString("| what | measured | wanted |\n| --- | --- | --- |\n")
	row := func(what, wanted, format string, measured ...any) {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", what, fmt.Sprintf(format, measured...), wanted)
	}
	row("VMs that come by the first launch", "≥ 95 %", "%.1f %% (one offer for each claim: %.1f %%)", 100*f.FirstAttemptSuccess, 100*f.BaselineFirstAttemptSuccess)
	row("writes for each VM", "≤ 1.2", "%.2f", f.ARMWritesPerNode)
	row("reads for each VM", "≤ 3", "%.2f", f.ARMReadsPerNode)
	row("requests throttled", "0", "%d", f.ThrottledRequests)
	row("0 to 1,000 nodes, median", "≤ 180 s", "%.0f s", f.SecondsTo1000Nodes)
	row("faults, and pairs of them", "all, 66", "%d, %d", f.FaultsRun, f.FaultPairsRun)
	row("left behind, twice, of others touched", "0, 0, 0", "%d, %d, %d", f.Leaked, f.Duplicates, f.ForeignTouched)
	row("from the notice to the replacement, p99", "≤ 2 s", "%.2f s", f.NoticeToReplacementP99Seconds)
	return b.String()
}

// Write puts the figures into a file, as JSON.
func (f Figures) Write(file string) error {
	raw, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the figures: %w", err)
	}
	if err := os.WriteFile(file, append(raw, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the figures: %w", err)
	}
	return nil
}
