// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"text/tabwriter"
)

// Row is the result for one size of cluster, as results/scale.json has it.
type Row struct {
	Nodes    int    `json:"nodes"`
	Pods     int    `json:"pods"`
	Karve    *Side  `json:"karve"`
	Upstream *Side  `json:"upstream"` // nil when it was left out
	Churn    *Churn `json:"-"`
}

// Side is what one controller used, and how long it took.
type Side struct {
	// RSSMB is the most memory that the process had at any time, in MiB.
	RSSMB float64 `json:"rss_mb"`
	// CPUSeconds is for both runs of the process: the one with churn, and the one after the restart.
	CPUSeconds float64 `json:"cpu_seconds"`
	// RestartSeconds is from the start of the process, with pods pending, to its first NodeClaim.
	RestartSeconds float64 `json:"restart_seconds"`
	// EventToDecision is from the moment a pod is unschedulable to its NodeClaim, while other pods
	// come and go.
	EventToDecision float64 `json:"event_to_decision_p99_seconds"`
	// LockWait is nil where it is not measured.
	LockWait *float64 `json:"lock_wait_p99_seconds"`

	Details Details `json:"-"`
}

// Details are further figures of a side, which are printed only.
type Details struct {
	SteadyMB  float64 // memory at the end of the churn
	Decided   int     // probes that got a NodeClaim
	Probes    int
	Covered   float64 // seconds from the restart until NodeClaims had room for every pending pod; 0: never
	Queue     float64 // most pods waiting for a decision
	Lists     float64 // LIST requests of the restart; client-go lists through watches where it can
	ListBytes float64 // and the size of their responses
}

// Churn is what the API server bore.
type Churn struct {
	Pods    int
	Seconds float64
}

// Rate is pods a second, each of them created and another deleted.
func (c Churn) Rate() float64 { return float64(c.Pods) / c.Seconds }

// Save replaces the rows of the same size in a file of rows, and adds others.
func Save(path string, rows []Row) error {
	saved, err := load(path)
	if err != nil {
		return err
	}
	for _, r := range rows {
		saved = slices.DeleteFunc(saved, func(old Row) bool { return old.Nodes == r.Nodes && old.Pods == r.Pods })
		saved = append(saved, r)
	}
	slices.SortFunc(saved, func(a, b Row) int { return a.Nodes - b.Nodes })
	text, err := json.MarshalIndent(saved, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the results: %w", err)
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

func load(path string) (rows []Row, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading earlier results: %w", err)
	}
	if err := json.Unmarshal(text, &rows); err != nil {
		return nil, fmt.Errorf("reading earlier results in %s: %w", path, err)
	}
	return rows, nil
}

// Print writes a table of all figures.
func Print(w io.Writer, rows []Row) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		fmt.Fprintf(t, "%d nodes, %d pods", r.Nodes, r.Pods)
		if r.Churn != nil {
			fmt.Fprintf(t, ", churn of %.0f pods/s", r.Churn.Rate())
		}
		fmt.Fprintln(t, "\tmost MiB\tsteady MiB\tCPU s\trestart s\tall decided s\tdecision p99 s\tprobes\tlock wait p99 s\tqueue\tLISTs\tLIST MiB")
		for _, side := range []struct {
			name string
			*Side
		}{{"karve", r.Karve}, {"upstream", r.Upstream}} {
			if side.Side == nil {
				continue
			}
			name, s := side.name, side.Side
			d, wait := s.Details, "-"
			if s.LockWait != nil {
				wait = fmt.Sprintf("%.4f", *s.LockWait)
			}
			fmt.Fprintf(t, "%s\t%.0f\t%.0f\t%.1f\t%.1f\t%.1f\t%.2f\t%d/%d\t%s\t%.0f\t%.0f\t%.1f\n", name, s.RSSMB, d.SteadyMB, s.CPUSeconds,
				s.RestartSeconds, d.Covered, s.EventToDecision, d.Decided, d.Probes, wait, d.Queue, d.Lists, d.ListBytes/(1<<20))
		}
	}
	return t.Flush()
}
