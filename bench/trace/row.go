// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"text/tabwriter"
)

// Row is the result of one scale and policy.
type Row struct {
	Scale    int      `json:"scale"` // of so many batches one is replayed
	Policy   string   `json:"policy"`
	Hours    float64  `json:"hours"`
	Karve    Figures  `json:"karve"`
	Upstream *Figures `json:"upstream"` // null where karve was alone
	BoundUSD float64  `json:"covering_bound_usd"`
}

// Figures are those of one side.
type Figures struct {
	USD                    float64 `json:"usd"`
	EvictionsPerPodDay     float64 `json:"evictions_per_pod_day"`
	PendingPodSeconds      float64 `json:"pending_pod_seconds"`
	YoungEvictionsShare    float64 `json:"young_evictions_share"`
	DecisionCPUSeconds     float64 `json:"decision_cpu_seconds"`
	LongestDecisionSeconds float64 `json:"longest_decision_seconds"`
	PeakNodes              int     `json:"peak_nodes"`
}

// Figures are the outcome as it is reported.
func (o Outcome) Figures() Figures {
	return Figures{
		USD:                    o.USD,
		EvictionsPerPodDay:     ratio(float64(o.Evictions), o.PodDays),
		PendingPodSeconds:      o.Pending.Seconds(),
		YoungEvictionsShare:    ratio(float64(o.Young), float64(o.Evictions)),
		DecisionCPUSeconds:     o.CPU.Seconds(),
		LongestDecisionSeconds: o.Longest.Seconds(),
		PeakNodes:              o.PeakNodes,
	}
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// Print writes a table, and where the record comes from.
func Print(to io.Writer, rows []Row) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "scale\tpolicy\thours\tside\tUSD\tover bound\tevictions/pod-day\tof young pods\tpending pod-s\tCPU s\tlongest s\tpeak nodes\t")
	for _, r := range rows {
		r.print(w, "karve", r.Karve)
		if r.Upstream != nil {
			r.print(w, "upstream", *r.Upstream)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(to, "Trace: %s.\n", Source)
	return err
}

func (r Row) print(w io.Writer, side string, f Figures) {
	fmt.Fprintf(w, "1/%d\t%s\t%.1f\t%s\t%.2f\t%+.1f %%\t%.3f\t%.0f %%\t%.0f\t%.1f\t%.3f\t%d\t\n", r.Scale, r.Policy, r.Hours, side,
		f.USD, 100*(ratio(f.USD, r.BoundUSD)-1), f.EvictionsPerPodDay, 100*f.YoungEvictionsShare, f.PendingPodSeconds,
		f.DecisionCPUSeconds, f.LongestDecisionSeconds, f.PeakNodes)
}

// Load reads saved rows; none where there is no file.
func Load(path string) ([]Row, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading saved rows: %w", err)
	}
	var rows []Row
	if err := json.Unmarshal(text, &rows); err != nil {
		return nil, fmt.Errorf("reading saved rows: %s: %w", path, err)
	}
	return rows, nil
}

// Save writes rows.
func Save(path string, rows []Row) error {
	text, err := json.MarshalIndent(rows, "", "  ")
	if err != nil {
		return fmt.Errorf("saving rows: %w", err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("saving rows: %w", err)
	}
	return nil
}

// Replace puts the row among others, in the place of that of its scale and policy, the smallest
// clusters first.
func Replace(rows []Row, r Row) []Row {
	out := slices.DeleteFunc(slices.Clone(rows), func(x Row) bool { return x.Scale == r.Scale && x.Policy == r.Policy })
	out = append(out, r)
	slices.SortFunc(out, func(a, b Row) int { return cmp.Or(b.Scale-a.Scale, rank(a.Policy)-rank(b.Policy)) })
	return out
}

// rank is the place of the policy among all.
func rank(policy string) int {
	for i, p := range Policies() {
		if string(p) == policy {
			return i
		}
	}
	return len(Policies())
}
