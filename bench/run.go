package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/karve-dev/karve/bench/karve"
	"github.com/karve-dev/karve/bench/measure"
	"github.com/karve-dev/karve/bench/plot"
	"github.com/karve-dev/karve/bench/report"
	"github.com/karve-dev/karve/bench/scenario"
	"github.com/karve-dev/karve/bench/upstream"
	"github.com/karve-dev/karve/engine/world"
)

const (
	// karveRuns is how many decisions of ours the median is taken of, and karveLimit
	// how long they may take together before two will do.
	karveRuns  = 15
	karveLimit = 20 * time.Second
	// upstreamRuns is the same for upstream; a first run longer than upstreamLong stands alone.
	upstreamRuns = 3
	upstreamLong = 10 * time.Second
)

const method = "Times are medians: of up to 15 decisions of ours, of 3 of upstream's, or its only one when that takes over 10 s; garbage is collected before each."

// bench runs what was asked for and says how it went.
func (c config) bench(ctx context.Context) error {
	rows := []report.Row{{Scenario: "environment", Environment: environment()}}
	for _, it := range c.items() {
		if !c.only.MatchString(it.name) {
			continue
		}
		if c.list {
			fmt.Println(it.name)
			continue
		}
		fmt.Fprintf(os.Stderr, "%s …\n", it.name)
		row, err := c.row(ctx, it)
		if err != nil {
			return fmt.Errorf("%s: %w", it.name, err)
		}
		rows = append(rows, row)
	}
	if c.list {
		return nil
	}
	if err := report.Print(os.Stdout, rows); err != nil || c.partial() {
		return err
	}
	if err := report.Save(filepath.Join(c.results, "latest.json"), rows); err != nil {
		return err
	}
	return c.draw(rows)
}

// draw plots the rows that were measured for it.
func (c config) draw(rows []report.Row) error {
	pods := plot.Series{Name: "pods, on an empty cluster"}
	nodes := plot.Series{Name: "nodes, for 1000 pods"}
	for _, r := range rows {
		var n float64
		if _, err := fmt.Sscanf(r.Scenario, "scaling pods %f", &n); err == nil {
			pods.Points = append(pods.Points, plot.Point{Size: n, Seconds: r.Karve.BestSeconds})
		} else if _, err := fmt.Sscanf(r.Scenario, "scaling nodes %f", &n); err == nil {
			nodes.Points = append(nodes.Points, plot.Point{Size: n, Seconds: r.Karve.BestSeconds})
		}
	}
	svg := plot.SVG("Time of one decision of karve (best of several)", "pods or nodes", []plot.Series{pods, nodes})
	if err := os.WriteFile(filepath.Join(c.results, "scaling.svg"), []byte(svg), 0o644); err != nil {
		return fmt.Errorf("drawing the plot: %w", err)
	}
	return nil
}

// row measures both sides, one after the other.
func (c config) row(ctx context.Context, it item) (report.Row, error) {
	if it.measure != nil {
		return it.measure(ctx)
	}
	s, err := it.make(ctx)
	if err != nil {
		return report.Row{}, fmt.Errorf("building the scenario: %w", err)
	}
	row := report.Row{Scenario: it.name, Pods: len(s.Pending)}
	row.Karve, row.Invalid = ours(s)
	row.Note = wishes(s, row.Karve.Preferences)
	switch {
	case c.karveOnly:
	case it.alone != "":
		row.Say(it.alone)
	default:
		if row.Upstream, err = theirs(ctx, s); err != nil {
			return row, err
		}
		row.Upstream.LowerBound = sharedBound(s, row)
	}
	row.Compare()
	return row, nil
}

// wishes says what became of preferences where they count: a price is no merit of a
// plan that honours none.
func wishes(s *scenario.Scenario, p *report.Preferences) string {
	switch {
	case s.Settings.Preferences != world.Respect:
		return ""
	case p == nil:
		return "ours looked at no preference"
	}
	return fmt.Sprintf("ours honours %d of %d preferences, for %.3f $/h", p.Honoured, p.Asked, p.USDPerHour)
}

// sharedBound is the lower bound for upstream's purchase: ours, where both had to
// buy for all the same pods.
func sharedBound(s *scenario.Scenario, row report.Row) float64 {
	if len(s.Nodes) > 0 || row.Karve.Unscheduled != 0 || row.Upstream.Unscheduled != 0 {
		return 0
	}
	return row.Karve.LowerBound
}

// ours also says what is wrong with the plan, if anything is.
func ours(s *scenario.Scenario) (side *report.Side, invalid string) {
	run := karve.New(s).Repeat(karveRuns, karveLimit)
	sample := measure.Median(run.Samples)
	side = &report.Side{
		Nodes:        len(run.Plan.Launches),
		USDPerHour:   run.Plan.Price().USD(),
		LowerBound:   run.Plan.LowerBound.USD(),
		SolveSeconds: measure.Median(run.Solve).Took.Seconds(),
		Runs:         len(run.Samples),
	}
	for _, u := range run.Plan.Unplaced {
		side.Unscheduled += len(u.Pods)
	}
	if err := karve.Audit(s, run.Plan); err != nil {
		invalid = err.Error()
	}
	side.BestSeconds = measure.Percentile(run.Samples, 0).Took.Seconds()
	if p := run.Plan.Preferences; p.Asked > 0 {
		side.Preferences = &report.Preferences{Asked: p.Asked, Honoured: p.Honoured, USDPerHour: p.Cost.USD()}
	}
	return timed(side, sample, len(s.Pending)), invalid
}

func theirs(ctx context.Context, s *scenario.Scenario) (*report.Side, error) {
	c, err := upstream.New(ctx, s)
	if err != nil {
		return nil, err
	}
	var side *report.Side
	var samples []measure.Sample
	for len(samples) < upstreamRuns && (len(samples) == 0 || samples[0].Took < upstreamLong) {
		batch := c.Batch()
		var failed error
		samples = append(samples, measure.Once(func() { side, failed = decide(batch) }))
		if failed != nil {
			return nil, failed
		}
	}
	side.Runs = len(samples)
	side.BestSeconds = measure.Percentile(samples, 0).Took.Seconds()
	return timed(side, measure.Median(samples), len(s.Pending)), nil
}

func decide(b *upstream.Batch) (*report.Side, error) {
	results, err := b.Decide()
	if err != nil {
		return nil, err
	}
	price, err := upstream.USDPerHour(results)
	if err != nil {
		return nil, err
	}
	return &report.Side{Nodes: len(results.NewNodeClaims), USDPerHour: price, Unscheduled: len(results.PodErrors)}, nil
}

func timed(side *report.Side, s measure.Sample, pods int) *report.Side {
	side.Seconds = s.Took.Seconds()
	side.PodsPerSecond = float64(pods) / side.Seconds
	side.BytesPerOp = s.Bytes
	return side
}

func environment() *report.Environment {
	return &report.Environment{
		Go: runtime.Version(), CPU: cpu(), GOMAXPROCS: runtime.GOMAXPROCS(0), Commit: commit(),
		Started: time.Now().UTC().Format(time.RFC3339), Method: method,
	}
}

// cpu names the processor where Linux tells.
func cpu() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
