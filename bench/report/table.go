// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

var header = []string{"scenario", "side", "seconds", "of runs", "median", "CPU s", "solve", "pods/s", "nodes", "$/h", "bound $/h",
	"unplaced", "MB/op", "allocs/op", "speedup", "by CPU", "cost ratio", "commit", "note"}

// table has a line for each side of each row.
func table(rows []Row) [][]string {
	lines := [][]string{header}
	for _, r := range rows {
		name, ratios := r.Scenario, []string{optional(r.Speedup, "%.0f×"), optional(r.CPUSpeedup, "%.0f×"), optional(r.CostRatio, "%.3f"), r.Commit, r.Note}
		for _, side := range []struct {
			name string
			*Side
		}{{"karve", r.Karve}, {"upstream", r.Upstream}} {
			if side.Side == nil {
				continue
			}
			lines = append(lines, append(append([]string{name, side.name}, side.cells()...), ratios...))
			name, ratios = "", make([]string, len(ratios))
		}
	}
	return lines
}

func (s *Side) cells() []string {
	return []string{
		seconds(s.Seconds), nonzero(float64(s.Runs), "%.0f"), seconds(s.Median), seconds(s.CPU), seconds(s.Solve), nonzero(s.PodsPerSecond, "%.0f"),
		fmt.Sprint(s.Nodes), fmt.Sprintf("%.3f", s.USDPerHour), nonzero(s.LowerBound, "%.3f"), fmt.Sprint(s.Unscheduled),
		fmt.Sprintf("%.2f", float64(s.BytesPerOp)/1e6), nonzero(float64(s.AllocsPerOp), "%.0f"),
	}
}

// seconds has four digits that count, whatever the size.
func seconds(v float64) string { return nonzero(v, "%.4g") }

func nonzero(v float64, format string) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf(format, v)
}

func optional(v *float64, format string) string {
	if v == nil {
		return ""
	}
	return fmt.Sprintf(format, *v)
}

// Print writes the run for a terminal.
func Print(w io.Writer, e Environment, r Results) error {
	fmt.Fprintf(w, "%s; %s; commit %s; %s\n\n", e.Machine, e.Go, e.Commit, e.Started)
	for _, lines := range r.tables() {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, line := range lines {
			fmt.Fprintln(t, strings.TrimRight(strings.Join(line, "\t"), "\t"))
		}
		if err := t.Flush(); err != nil {
			return fmt.Errorf("printing the table: %w", err)
		}
		fmt.Fprintln(w)
	}
	for _, m := range e.Method {
		fmt.Fprintf(w, "- %s\n", m)
	}
	return nil
}

// SaveMarkdown writes the run as a page beside its JSON and its plot.
func SaveMarkdown(path, plot string, e Environment, r Results) error {
	var b strings.Builder
	b.WriteString("# The last run of the benchmark\n\nWritten by `make bench`; `latest.json` has the numbers.\n\n")
	for _, about := range [][2]string{{"machine", e.Machine}, {"Go", e.Go}, {"commit", e.Commit}, {"started", e.Started}} {
		fmt.Fprintf(&b, "- %s: %s\n", about[0], about[1])
	}
	for _, lines := range r.tables() {
		b.WriteString("\n" + markdown(lines))
	}
	b.WriteString("\n")
	for _, m := range e.Method {
		fmt.Fprintf(&b, "- %s\n", m)
	}
	fmt.Fprintf(&b, "\n![time against size, both axes logarithmic](%s)\n", plot)
	return write(path, []byte(b.String()))
}
