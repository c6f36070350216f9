// SPDX-License-Identifier: Apache-2.0

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
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/schedule"
)

const (
	// repetitions is how often either side decides; the best counts.
	repetitions = 9
	// slow is how long upstream's first decision takes at least where it is its only one.
	slow = 10 * time.Second
	// plotPatience ends upstream's line in the plot: the next point would be slower still.
	plotPatience = 30.0
)

// patience is how often either side decides.
func (c config) patience() measure.Patience {
	return measure.Patience{Runs: repetitions, Most: pick(c.quick, 5*time.Second, 30*time.Second), Less: pick(c.quick, time.Second/2, 3*time.Second)}
}

// method says what the numbers are.
func (c config) method() []string {
	p := c.patience()
	return []string{
		fmt.Sprintf("Seconds are the best of up to %d decisions of either side, as many as begin within %v, and of all that begin within %v, each after a garbage collection; upstream decides only once where that takes over %v. The computer may be shared, and the best run is the one least disturbed; the median stands beside it.", p.Runs, p.Most, p.Less, slow),
		"Other load on the computer disturbs long runs more than short ones. \"By CPU\" is the speedup in CPU time of all threads, garbage collector included, which other load hardly changes: where the two differ much, the computer was busy.",
		"Inside karve's clock: each pending pod is converted from its Kubernetes object and added to the warm snapshot, the plan is solved. Before it starts: the catalog, pools, DaemonSets, nodes and bound pods, which a controller's informers keep up to date. \"Solve\" is planning alone.",
		"Inside upstream's clock: its topology is counted, its scheduler made, the pods solved, instance types truncated. Before it starts: instance types, pools, DaemonSets and cluster state with nodes and bound pods. Its pods stay Kubernetes objects, its reads cost nothing, and the deep copy of its state is not counted.",
		"Both sides decide on the same objects, in one process, one after the other; the heap of the one is garbage when the other begins. MB/op and allocs/op are what one decision allocates, freed or not.",
		"$/h is the price of the nodes to launch, each at the cheapest offering that its NodeClaim accepts. No plan can beat the bound.",
	}
}

// bench runs the selected scenarios and reports the results.
func (c config) bench(ctx context.Context) error {
	var r report.Results
	for _, it := range c.items() {
		if !c.only.MatchString(it.name) {
			continue
		}
		if c.list {
			fmt.Println(it.name)
			continue
		}
		fmt.Fprintf(os.Stderr, "%s …\n", it.name)
		if len(r.Rows) > 0 && it.plotted && tooSlow(r.Rows[len(r.Rows)-1]) {
			it.alone = "upstream is left out after what it took one size before"
		}
		if err := c.add(ctx, it, &r); err != nil {
			return fmt.Errorf("%s: %w", it.name, err)
		}
	}
	if c.list {
		return nil
	}
	e := c.environment()
	r.SetOrigin(report.Origin{Commit: e.Commit, Measured: e.Started})
	if err := report.Print(os.Stdout, e, r); err != nil || c.partial() {
		return err
	}
	if c.update {
		saved, err := report.Load(filepath.Join(c.results, "latest.json"))
		if err != nil {
			return err
		}
		r = saved.Merge(r, c.names())
	}
	return c.save(e, r)
}

// names are those of all scenarios, in order.
func (c config) names() []string {
	var out []string
	for _, it := range c.items() {
		out = append(out, it.name)
	}
	return out
}

// add runs the item.
func (c config) add(ctx context.Context, it item, to *report.Results) error {
	if it.shrink != nil {
		row, err := it.shrink(ctx)
		to.Consolidations = append(to.Consolidations, row)
		return err
	}
	rows, err := c.measured(ctx, it)
	to.Rows = append(to.Rows, rows...)
	return err
}

// tooSlow reports whether upstream need not be asked for the next size.
func tooSlow(r report.Row) bool {
	return strings.HasPrefix(r.Scenario, nodesRow) && (r.Upstream == nil || r.Upstream.Seconds > plotPatience)
}

func (c config) save(e report.Environment, r report.Results) error {
	if err := report.Save(filepath.Join(c.results, "latest.json"), r); err != nil {
		return err
	}
	if err := report.SaveMarkdown(filepath.Join(c.results, "README.md"), plotFile, e, r); err != nil {
		return err
	}
	return c.draw(r.Rows)
}

const plotFile = "scaling.svg"

// draw plots the rows that are about growth, ours and upstream's.
func (c config) draw(rows []report.Row) error {
	svg := plot.SVG("Time of one decision",
		growth(rows, podsRow, "pending pods (diverse mix, empty cluster)"),
		growth(rows, nodesRow, "existing nodes, 20 pods on each"))
	if err := os.WriteFile(filepath.Join(c.results, plotFile), []byte(svg), 0o644); err != nil {
		return fmt.Errorf("drawing the plot: %w", err)
	}
	return nil
}

func growth(rows []report.Row, prefix, sizes string) plot.Panel {
	ours, theirs := plot.Series{Name: "karve"}, plot.Series{Name: "upstream"}
	for _, r := range rows {
		var n float64
		if _, err := fmt.Sscanf(r.Scenario, prefix+"%f", &n); err != nil {
			continue
		}
		ours.Points = append(ours.Points, plot.Point{Size: n, Seconds: r.Karve.Seconds})
		if r.Upstream != nil {
			theirs.Points = append(theirs.Points, plot.Point{Size: n, Seconds: r.Upstream.Seconds})
		}
	}
	return plot.Panel{Sizes: sizes, Series: []plot.Series{ours, theirs}}
}

func (c config) measured(ctx context.Context, it item) ([]report.Row, error) {
	if it.measure != nil {
		return it.measure(ctx)
	}
	s, err := it.make(ctx)
	if err != nil {
		return nil, fmt.Errorf("building the scenario: %w", err)
	}
	row, err := c.compare(ctx, it, s)
	return []report.Row{row}, err
}

// compare measures both sides, one after the other.
func (c config) compare(ctx context.Context, it item, s *scenario.Scenario) (report.Row, error) {
	row := report.Row{Scenario: it.name}
	var honoured string
	var err error
	if row.Karve, honoured, row.Invalid, err = c.ours(it, s); err != nil {
		return row, err
	}
	row.AddNote(honoured)
	switch {
	case c.karveOnly:
	case it.alone != "":
		row.AddNote(it.alone)
	default:
		if row.Upstream, err = c.theirs(ctx, it.limit, s); err != nil {
			return row, err
		}
		if row.Upstream == nil {
			row.AddNote(fmt.Sprintf("upstream was not done after %v", it.limit))
			break
		}
		row.Upstream.LowerBound = sharedBound(s, row)
	}
	row.Compare()
	return row, nil
}

// preferencesNote says what became of preferences where they count: a plan that honours none may
// be cheap for that reason alone.
func preferencesNote(s *scenario.Scenario, p schedule.Preferences) string {
	switch {
	case s.Settings.Preferences != cluster.Respect:
		return ""
	case p.Asked == 0:
		return "ours looked at no preference"
	}
	return fmt.Sprintf("ours honours %d of %d preferences, for %.3f $/h", p.Honoured, p.Asked, p.Cost.USD())
}

// sharedBound is the lower bound of upstream's launches: ours, where both launch
// for all the same pods.
func sharedBound(s *scenario.Scenario, row report.Row) float64 {
	if len(s.Nodes) > 0 || row.Karve.Unscheduled != 0 || row.Upstream.Unscheduled != 0 {
		return 0
	}
	return row.Karve.LowerBound
}

// ours also says what became of preferences, and what is wrong with the plan, if
// anything is.
func (c config) ours(it item, s *scenario.Scenario) (side *report.Side, honoured, invalid string, err error) {
	run := karve.New(s).Repeat(c.patience())
	side = &report.Side{
		Nodes:      len(run.Plan.Launches),
		USDPerHour: run.Plan.Price().USD(),
		LowerBound: run.Plan.LowerBound.USD(),
		Solve:      measure.Best(run.Solve).Took.Seconds(),
	}
	for _, u := range run.Plan.Unplaced {
		side.Unscheduled += len(u.Pods)
	}
	if err := karve.Audit(s, run.Plan); err != nil {
		invalid = err.Error()
	}
	if it.wholePods {
		if side.LowerBound, err = karve.LaunchBound(s, run.Plan); err != nil {
			return nil, "", "", fmt.Errorf("bounding the price: %w", err)
		}
	}
	return timed(side, run.Samples, len(s.Pending)), preferencesNote(s, run.Plan.Preferences), invalid, nil
}

// theirs returns nil when upstream's first decision is not done within the limit; no limit is 0.
func (c config) theirs(ctx context.Context, limit time.Duration, s *scenario.Scenario) (*report.Side, error) {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	cluster, err := upstream.New(ctx, s)
	if err != nil {
		return nil, err
	}
	var side *report.Side
	var samples []measure.Sample
	start := time.Now()
	for (len(samples) == 0 || samples[0].Took < slow) && c.patience().More(len(samples), start) {
		batch := cluster.Batch()
		sample := measure.Once(func() { side, err = decide(batch) })
		if limit > 0 && ctx.Err() != nil {
			break // what it decided is not all
		}
		if err != nil {
			return nil, err
		}
		samples = append(samples, sample)
	}
	if len(samples) == 0 {
		return nil, nil
	}
	return timed(side, samples, len(s.Pending)), nil
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

func timed(side *report.Side, samples []measure.Sample, pods int) *report.Side {
	best := measure.Best(samples)
	side.Seconds = best.Took.Seconds()
	side.Median = measure.Median(samples).Took.Seconds()
	side.CPU = best.CPU.Seconds()
	side.Runs = len(samples)
	side.PodsPerSecond = float64(pods) / side.Seconds
	side.BytesPerOp, side.AllocsPerOp = best.Bytes, best.Objects
	return side
}

func (c config) environment() report.Environment {
	return report.Environment{
		Machine: fmt.Sprintf("%s, %d cores, %s/%s", cpu(), runtime.GOMAXPROCS(0), runtime.GOOS, runtime.GOARCH),
		Go:      runtime.Version(), Commit: commit(),
		Started: c.started.UTC().Format(time.RFC3339) + pick(c.quick, ", quick (small sizes)", ""),
		Method:  append(c.method(), c.shrinkMethod()...),
	}
}

// cpu names the processor, on Linux.
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
