// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// ConsolidationSide is the result of one side that consolidated a cluster.
type ConsolidationSide struct {
	// PassSeconds is what a look at the whole cluster takes at first, ConvergeSeconds all
	// deciding until nothing more was found or the time was over.
	PassSeconds     float64 `json:"pass_seconds"`
	ConvergeSeconds float64 `json:"converge_seconds"`
	Before          float64 `json:"usd_per_hour_before"`
	After           float64 `json:"usd_per_hour_after"`
	Nodes           int     `json:"nodes_after"`
	Evictions       int     `json:"evictions"`
	TimedOut        bool    `json:"timed_out"`

	// PassCPU and ConvergeCPU are what all threads computed meanwhile, seconds; Rounds
	// counts the decisions with a change, Launched the nodes.
	PassCPU     float64 `json:"pass_cpu_seconds,omitempty"`
	ConvergeCPU float64 `json:"converge_cpu_seconds,omitempty"`
	Rounds      int     `json:"rounds,omitempty"`
	Launched    int     `json:"launched,omitempty"`
	// Invalid says what is wrong with where pods ended up: it is then no answer.
	Invalid string `json:"invalid,omitempty"`
}

// PerDollar is how many pods were evicted for each $/h saved; nil where nothing was.
func (s *ConsolidationSide) PerDollar() *float64 {
	return ratio(float64(s.Evictions), max(0, s.Before-s.After))
}

// Consolidation is one cluster that both sides consolidate.
type Consolidation struct {
	Scenario string             `json:"scenario"`
	Karve    *ConsolidationSide `json:"karve"`
	Upstream *ConsolidationSide `json:"upstream"` // nil where upstream did not run
	// LowerBound is a price that no cluster with these pods can beat, $/h; zero when not known.
	LowerBound float64 `json:"lower_bound_usd_per_hour"`
	// AtUpstreamsPrice is how many pods ours had moved when its cluster cost no more than
	// upstream's did in the end; nil when it never did.
	AtUpstreamsPrice *int `json:"karve_evictions_at_upstream_price"`
	// Speedup is upstream's time until the end over ours, CostRatio our price at the end
	// over upstream's, EvictionRatio our evictions per $/h saved over upstream's; nil
	// where that means nothing: the last where either side did not come to its end.
	Speedup       *float64 `json:"speedup"`
	CostRatio     *float64 `json:"cost_ratio"`
	EvictionRatio *float64 `json:"evictions_per_dollar_ratio"`

	Note string `json:"note,omitempty"`

	Origin
}

// Compare fills in the ratios, where both ended with valid clusters.
func (c *Consolidation) Compare() {
	for name, s := range map[string]*ConsolidationSide{"karve": c.Karve, "upstream": c.Upstream} {
		if s != nil && s.Invalid != "" {
			c.Note = join(c.Note, fmt.Sprintf("INVALID PLACEMENT by %s, no ratio: %s", name, s.Invalid))
		}
	}
	k, u := c.Karve, c.Upstream
	if k == nil || u == nil || k.Invalid != "" || u.Invalid != "" {
		return
	}
	c.Speedup = ratio(u.ConvergeSeconds, k.ConvergeSeconds)
	c.CostRatio = ratio(k.After, u.After)
	if ours, theirs := k.PerDollar(), u.PerDollar(); ours != nil && theirs != nil && !k.TimedOut && !u.TimedOut {
		c.EvictionRatio = ratio(*ours, *theirs)
	}
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

var consolidationHeader = []string{"cluster", "side", "first pass s", "CPU s", "until the end s", "CPU s", "rounds", "$/h before", "$/h after", "bound $/h", "over bound",
	"nodes after", "launched", "evictions", "evictions per $/h", "timed out", "speedup", "cost ratio", "eviction ratio", "ours at upstream's price", "commit", "note"}

// consolidations has a line for each side of each cluster.
func consolidations(rows []Consolidation) [][]string {
	lines := [][]string{consolidationHeader}
	for _, r := range rows {
		name := r.Scenario
		ratios := []string{optional(r.Speedup, "%.0f×"), optional(r.CostRatio, "%.3f"), optional(r.EvictionRatio, "%.2f"), r.atUpstreamsPrice(), r.Commit, r.Note}
		for _, side := range []struct {
			name string
			*ConsolidationSide
		}{{"karve", r.Karve}, {"upstream", r.Upstream}} {
			if side.ConsolidationSide == nil {
				continue
			}
			lines = append(lines, append(append([]string{name, side.name}, side.cells(r.LowerBound)...), ratios...))
			name, ratios = "", make([]string, len(ratios))
		}
	}
	return lines
}

func (c *Consolidation) atUpstreamsPrice() string {
	if c.AtUpstreamsPrice == nil {
		return ""
	}
	return fmt.Sprintf("%d evictions", *c.AtUpstreamsPrice)
}

func (s *ConsolidationSide) cells(bound float64) []string {
	over, late := "", ""
	if bound > 0 {
		over = fmt.Sprintf("%.1f %%", 100*(s.After/bound-1))
	}
	if s.TimedOut {
		late = "yes"
	}
	return []string{
		seconds(s.PassSeconds), seconds(s.PassCPU), seconds(s.ConvergeSeconds), seconds(s.ConvergeCPU), fmt.Sprint(s.Rounds),
		fmt.Sprintf("%.3f", s.Before), fmt.Sprintf("%.3f", s.After), nonzero(bound, "%.3f"), over,
		fmt.Sprint(s.Nodes), fmt.Sprint(s.Launched), fmt.Sprint(s.Evictions), optional(s.PerDollar(), "%.1f"), late,
	}
}

// Results is a whole run.
type Results struct {
	Rows           []Row
	Consolidations []Consolidation
}

// MarshalJSON writes one list of scenarios.
func (r Results) MarshalJSON() ([]byte, error) {
	all := make([]any, 0, len(r.Rows)+len(r.Consolidations))
	for _, row := range r.Rows {
		all = append(all, row)
	}
	for _, c := range r.Consolidations {
		all = append(all, c)
	}
	return json.Marshal(all)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (r *Results) UnmarshalJSON(text []byte) error {
	var all []json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	for _, one := range all {
		var kind struct {
			Karve struct {
				PassSeconds *float64 `json:"pass_seconds"`
			} `json:"karve"`
		}
		if err := json.Unmarshal(one, &kind); err != nil {
			return err
		}
		var err error
		if kind.Karve.PassSeconds != nil {
			r.Consolidations = append(r.Consolidations, Consolidation{})
			err = json.Unmarshal(one, &r.Consolidations[len(r.Consolidations)-1])
		} else {
			r.Rows = append(r.Rows, Row{})
			err = json.Unmarshal(one, &r.Rows[len(r.Rows)-1])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Load reads the results that Save wrote.
func Load(path string) (Results, error) {
	var r Results
	text, err := os.ReadFile(path)
	if err != nil {
		return r, fmt.Errorf("reading the saved results: %w", err)
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("reading %s: %w", path, err)
	}
	return r, nil
}

// Merge returns the results of the named scenarios in that order, the newer ones where there are
// any. Scenarios that are not named are left out.
func (r Results) Merge(newer Results, scenarios []string) Results {
	var out Results
	out.Rows = merge(r.Rows, newer.Rows, scenarios, func(x Row) string { return x.Scenario })
	out.Consolidations = merge(r.Consolidations, newer.Consolidations, scenarios, func(x Consolidation) string { return x.Scenario })
	return out
}

// merge takes a scenario's rows by the beginning of their names: one scenario may have several
// rows.
func merge[T any](old, newer []T, scenarios []string, name func(T) string) []T {
	var out []T
	for _, scenario := range scenarios {
		of := func(rows []T) (own []T) {
			for _, row := range rows {
				if n := name(row); n == scenario || strings.HasPrefix(n, scenario+", ") {
					own = append(own, row)
				}
			}
			return own
		}
		if fresh := of(newer); len(fresh) > 0 {
			out = append(out, fresh...)
			continue
		}
		out = append(out, of(old)...)
	}
	return out
}

// tables are those that have lines.
func (r Results) tables() [][][]string {
	var out [][][]string
	if len(r.Rows) > 0 {
		out = append(out, table(r.Rows))
	}
	if len(r.Consolidations) > 0 {
		out = append(out, consolidations(r.Consolidations))
	}
	return out
}

func markdown(lines [][]string) string {
	var b strings.Builder
	for i, line := range lines {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(line, " | "))
		if i == 0 {
			b.WriteString(strings.Repeat("| --- ", len(line)) + "|\n")
		}
	}
	return b.String()
}
