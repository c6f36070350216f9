// SPDX-License-Identifier: Apache-2.0

// Command cmd replays a real trace of VMs with karve and with upstream Karpenter, and says what
// either side spends and evicts.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/bench/scenario"
	"github.com/karve-dev/karve/bench/trace"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "trace:", err)
		os.Exit(1)
	}
}

// config is what the flags say.
type config struct {
	folder    string
	scales    []int
	policies  []karpv1.ConsolidationPolicy
	hours     float64
	after     time.Duration
	seed      uint64
	karveOnly bool
	machines  bool
	results   string // folder; empty: save nothing
}

func parse(args []string) (config, error) {
	var c config
	flags := flag.NewFlagSet("trace", flag.ContinueOnError)
	flags.StringVar(&c.folder, "trace", os.Getenv("KARVE_TRACE"), "folder of the trace's files; see the README of bench (default: the environment variable KARVE_TRACE)")
	scales := flags.String("scale", "100,20,1", "replay one of so many batches, several numbers one after the other; upstream is left out of 1, the whole trace")
	policies := flags.String("policy", strings.Join(names(trace.Policies()), ","), "consolidationPolicy of the NodePool, several one after the other")
	flags.Float64Var(&c.hours, "hours", 0, "how many hours of the trace to replay (0: all)")
	flags.DurationVar(&c.after, "consolidate-after", 0, "consolidateAfter of the NodePool")
	flags.Uint64Var(&c.seed, "seed", 1, "of what is drawn: spread, anti-affinity, budgets, lifetimes within their interval")
	flags.BoolVar(&c.karveOnly, "karve-only", false, "leave upstream out")
	flags.BoolVar(&c.machines, "machines", false, "list the instance types that most was paid for, and what launched nodes had to do with evictions")
	flags.StringVar(&c.results, "results", "", "folder in which trace.json and trace.svg get the rows of this run in the place of earlier ones (empty: save nothing)")
	if err := flags.Parse(args); err != nil {
		return c, err
	}
	for text := range strings.SplitSeq(*scales, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return c, fmt.Errorf("-scale: %q is not a whole number above 0", text)
		}
		c.scales = append(c.scales, n)
	}
	for name := range strings.SplitSeq(*policies, ",") {
		if !slices.Contains(names(trace.Policies()), name) {
			return c, fmt.Errorf("-policy: %q is none of %s", name, strings.Join(names(trace.Policies()), ", "))
		}
		c.policies = append(c.policies, karpv1.ConsolidationPolicy(name))
	}
	return c, nil
}

func names(policies []karpv1.ConsolidationPolicy) []string {
	var out []string
	for _, p := range policies {
		out = append(out, string(p))
	}
	return out
}

func run(ctx context.Context, args []string) error {
	c, err := parse(args)
	if err != nil {
		return err
	}
	record, err := trace.Read(c.folder)
	if err != nil {
		return fmt.Errorf("%w; -trace or KARVE_TRACE names the folder", err)
	}
	empty, err := scenario.Empty(ctx)
	if err != nil {
		return fmt.Errorf("building the empty cluster: %w", err)
	}
	var rows []trace.Row
	for _, scale := range c.scales {
		for _, policy := range c.policies {
			row, err := c.row(ctx, empty, record, scale, policy)
			if err != nil {
				return fmt.Errorf("scale 1/%d, %s: %w", scale, policy, err)
			}
			rows = append(rows, row)
			if err := c.save(row); err != nil {
				return err
			}
		}
	}
	return trace.Print(os.Stdout, rows)
}

// row lets both sides, one after the other, live through the trace.
func (c config) row(ctx context.Context, empty *scenario.Scenario, record *trace.Record, scale int, policy karpv1.ConsolidationPolicy) (trace.Row, error) {
	of := trace.Selection{Scale: scale, Bins: int(c.hours / trace.Bin.Hours()), Seed: c.seed}
	d := trace.Disruption(policy, c.after)
	ours, err := trace.Karve(empty, record, of, d, progress(scale, policy, "karve"))
	if err != nil {
		return trace.Row{}, fmt.Errorf("karve: %w", err)
	}
	c.describe("karve", ours)
	row := trace.Row{Scale: scale, Policy: string(policy), Hours: ours.Hours, Karve: ours.Figures(), BoundUSD: ours.Bound}
	if c.karveOnly || scale == 1 {
		return row, nil
	}
	theirs, err := trace.Upstream(ctx, empty, record, of, d, progress(scale, policy, "upstream"))
	if err != nil {
		return row, fmt.Errorf("upstream: %w", err)
	}
	c.describe("upstream", theirs)
	figures := theirs.Figures()
	row.Upstream = &figures
	return row, nil
}

// mostMachines is how many instance types are listed.
const mostMachines = 12

// describe lists machines and evictions of one side.
func (c config) describe(side string, o trace.Outcome) {
	if !c.machines {
		return
	}
	fmt.Printf("%s: %d nodes launched; %d evictions, %d of young pods, %d by changes that launched nodes\n", side, o.Launched, o.Evictions, o.Young, o.Replacing)
	types := slices.SortedFunc(maps.Keys(o.Machines), func(a, b string) int {
		return cmp.Or(cmp.Compare(o.Machines[b], o.Machines[a]), cmp.Compare(a, b))
	})
	for _, name := range types[:min(mostMachines, len(types))] {
		fmt.Printf("%10.2f USD  %4.1f %%  %s\n", o.Machines[name], 100*o.Machines[name]/o.USD, name)
	}
}

// progress says every twelve hours of the trace how it goes.
func progress(scale int, policy karpv1.ConsolidationPolicy, side string) func(trace.Outcome) {
	next := 0.0
	return func(o trace.Outcome) {
		if o.Hours < next {
			return
		}
		next += 12
		fmt.Fprintf(os.Stderr, "scale 1/%d, %s, %s: %.0f hours, %.2f USD, %d evictions, decided for %v …\n",
			scale, policy, side, o.Hours, o.USD, o.Evictions, o.CPU.Round(time.Second))
	}
}

// save puts the row among the saved ones.
func (c config) save(r trace.Row) error {
	if c.results == "" {
		return nil
	}
	file := filepath.Join(c.results, "trace.json")
	saved, err := trace.Load(file)
	if err != nil {
		return err
	}
	saved = trace.Replace(saved, r)
	if err := trace.Save(file, saved); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(c.results, "trace.svg"), []byte(trace.Picture(saved)), 0o644); err != nil {
		return fmt.Errorf("drawing the picture: %w", err)
	}
	return nil
}
