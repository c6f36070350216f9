// Package report is what a run of the benchmark says: rows as JSON for machines
// and as a table for people. It prints a ratio only where both sides had the same
// inputs and ours placed no fewer pods; it computes nothing else.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
)

// Side is what one scheduler did with a scenario.
type Side struct {
	Seconds       float64 `json:"seconds"`
	PodsPerSecond float64 `json:"pods_per_second"`
	// Nodes are those to buy, USDPerHour their price when each is the cheapest that will do.
	Nodes      int     `json:"nodes"`
	USDPerHour float64 `json:"usd_per_hour"`
	// LowerBound is a price that no plan can beat; zero when it is not known.
	LowerBound  float64 `json:"lower_bound_usd_per_hour"`
	Unscheduled int     `json:"unscheduled"`
	BytesPerOp  uint64  `json:"bytes_per_op"`
	// SolveSeconds is planning alone, without taking in the pods.
	SolveSeconds float64 `json:"solve_seconds,omitempty"`
	// Runs is how many the median was taken of, BestSeconds the fastest of them: on a
	// shared machine the one least disturbed.
	Runs        int     `json:"runs"`
	BestSeconds float64 `json:"best_seconds,omitempty"`
	// Preferences are how many our plan was asked for and honoured, and what that costs.
	Preferences *Preferences `json:"preferences,omitempty"`
	// P50 and P99 are set where one decision was taken very often.
	P50Seconds float64 `json:"p50_seconds,omitempty"`
	P99Seconds float64 `json:"p99_seconds,omitempty"`
	// HeapBytes is what the world occupies after a collection.
	HeapBytes uint64 `json:"heap_bytes,omitempty"`
}

// Preferences is the account of what pods merely prefer.
type Preferences struct {
	Asked      int     `json:"asked"`
	Honoured   int     `json:"honoured"`
	USDPerHour float64 `json:"usd_per_hour"`
}

// Row is one scenario.
type Row struct {
	Scenario string `json:"scenario"`
	Pods     int    `json:"pods,omitempty"`
	Karve    *Side  `json:"karve,omitempty"`
	Upstream *Side  `json:"upstream,omitempty"`
	// Speedup is upstream's time over ours, CostRatio our price over upstream's.
	Speedup   float64 `json:"speedup,omitempty"`
	CostRatio float64 `json:"cost_ratio,omitempty"`
	Note      string  `json:"note,omitempty"`
	// Invalid says what is wrong with our plan: it is then no answer, however fast.
	Invalid string `json:"invalid,omitempty"`
	// Environment is set on the first row alone, which describes the run.
	Environment *Environment `json:"environment,omitempty"`
}

// Environment is where the run took place.
type Environment struct {
	Go         string `json:"go"`
	CPU        string `json:"cpu"`
	GOMAXPROCS int    `json:"gomaxprocs"`
	Commit     string `json:"commit"`
	Started    string `json:"started"`
	Method     string `json:"method"`
}

// Compare fills in the ratios, where they mean something.
func (r *Row) Compare() {
	if r.Invalid != "" {
		r.Say("INVALID PLAN, no ratio: " + r.Invalid)
		return
	}
	k, u := r.Karve, r.Upstream
	if k == nil || u == nil {
		return
	}
	if k.Unscheduled > u.Unscheduled {
		r.Say(fmt.Sprintf("no ratio: ours left %d pods, upstream %d", k.Unscheduled, u.Unscheduled))
		return
	}
	r.Speedup = u.Seconds / k.Seconds
	if u.USDPerHour > 0 {
		r.CostRatio = k.USDPerHour / u.USDPerHour
	}
}

// Say adds words to the note.
func (r *Row) Say(words string) {
	if r.Note != "" {
		r.Note += "; "
	}
	r.Note += words
}

// Print writes the rows as a table.
func Print(w io.Writer, rows []Row) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "scenario\tside\tseconds\tsolve\tpods/s\tnodes\t$/h\tbound $/h\tunplaced\tMB/op\tspeedup\tcost ratio\tnote")
	for _, r := range rows {
		if e := r.Environment; e != nil {
			if _, err := fmt.Fprintf(w, "%s, %s, GOMAXPROCS %d, commit %s, %s\n%s\n\n", e.Go, e.CPU, e.GOMAXPROCS, e.Commit, e.Started, e.Method); err != nil {
				return fmt.Errorf("printing the environment: %w", err)
			}
			continue
		}
		name := r.Scenario
		if r.Karve != nil {
			fmt.Fprintf(t, "%s\tkarve\t%s\t%s\t%s\t%s\n", name, r.Karve.cells(), blank(r.Speedup, "%.0f×"), blank(r.CostRatio, "%.3f"), r.Note)
			name = ""
		}
		if r.Upstream != nil {
			fmt.Fprintf(t, "%s\tupstream\t%s\n", name, r.Upstream.cells())
		}
		if r.Karve == nil && r.Upstream == nil {
			fmt.Fprintf(t, "%s\t\t\t\t\t\t\t\t\t\t\t\t%s\n", name, r.Note)
		}
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("printing the table: %w", err)
	}
	return nil
}

func (s *Side) cells() string {
	if s.P99Seconds > 0 {
		return fmt.Sprintf("p50 %.3f ms, p99 %.3f ms\t%s\t%s\t\t\t\t%d\t%.3f", s.P50Seconds*1e3, s.P99Seconds*1e3,
			blank(s.SolveSeconds, "%.6f"), blank(s.PodsPerSecond, "%.0f"), s.Unscheduled, float64(s.BytesPerOp)/1e6)
	}
	if s.HeapBytes > 0 {
		return fmt.Sprintf("heap %.0f MB\t\t\t\t\t\t\t%.3f", float64(s.HeapBytes)/1e6, float64(s.BytesPerOp)/1e6)
	}
	return fmt.Sprintf("%.4f\t%s\t%.0f\t%d\t%.3f\t%s\t%d\t%.2f", s.Seconds, blank(s.SolveSeconds, "%.4f"), s.PodsPerSecond,
		s.Nodes, s.USDPerHour, blank(s.LowerBound, "%.3f"), s.Unscheduled, float64(s.BytesPerOp)/1e6)
}

func blank(v float64, format string) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf(format, v)
}

// Save writes the rows as JSON, making the folder when there is none.
func Save(path string, rows []Row) error {
	text, err := json.MarshalIndent(rows, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the rows as JSON: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making the results' folder: %w", err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("saving the results: %w", err)
	}
	return nil
}
