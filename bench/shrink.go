// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/karve-dev/karve/bench/consolidate"
	"github.com/karve-dev/karve/bench/karve"
	"github.com/karve-dev/karve/bench/report"
	"github.com/karve-dev/karve/bench/scenario"
	"github.com/karve-dev/karve/bench/upstream"
)

// budget lets either side disrupt as many nodes at once as it likes: with less, both
// would do the same in more rounds, and upstream's result costs more.
const budget = "100%"

// shrinkLimit is for how long either side may decide. Upstream comes to its end within it on 200
// nodes.
func (c config) shrinkLimit() time.Duration {
	return cmp.Or(c.limit, pick(c.quick, 30*time.Second, 5*time.Minute))
}

// consolidations are clusters that are too large, with blocks and topology rules, and
// without them, where the lower bound is meaningful.
func (c config) consolidations() []item {
	of := func(nodes int, free bool, alone string) item {
		name := fmt.Sprintf("consolidate-%d", nodes)
		if free {
			name += "-free"
		}
		it := item{name: name, alone: alone}
		it.shrink = func(ctx context.Context) (report.Consolidation, error) {
			return c.shrink(ctx, it, scenario.Overprovisioned{Nodes: nodes, Free: free, Budget: budget})
		}
		return it
	}
	if c.quick {
		return []item{of(200, false, "")}
	}
	const long = "upstream does not finish"
	return []item{
		of(200, false, ""), of(500, false, ""), of(1000, false, ""), of(2000, false, ""), of(5000, false, long),
		of(200, true, ""), of(500, true, ""), of(2000, true, long),
	}
}

// shrink lets both sides consolidate the same cluster.
func (c config) shrink(ctx context.Context, it item, want scenario.Overprovisioned) (report.Consolidation, error) {
	row := report.Consolidation{Scenario: it.name}
	s, err := scenario.Consolidate(ctx, want)
	if err != nil {
		return row, fmt.Errorf("building the cluster: %w", err)
	}
	if row.LowerBound, err = karve.ClusterBound(s); err != nil {
		return row, fmt.Errorf("bounding the price: %w", err)
	}
	row.Note = fmt.Sprintf("%d pods on %d nodes", len(s.Bound), len(s.Nodes))
	var ours, theirs consolidate.Outcome
	if row.Karve, ours, err = c.shrunk(s, karve.NewDisruption(s)); err != nil {
		return row, fmt.Errorf("karve: %w", err)
	}
	switch {
	case c.karveOnly:
	case it.alone != "":
		row.Note += "; " + it.alone
	default:
		d, err := upstream.NewDisruption(ctx, s)
		if err != nil {
			return row, err
		}
		if row.Upstream, theirs, err = c.shrunk(s, d); err != nil {
			return row, fmt.Errorf("upstream: %w", err)
		}
		if n, ok := ours.EvictionsAt(theirs.After); ok {
			row.AtUpstreamsPrice = &n
		}
	}
	row.Compare()
	return row, nil
}

func (c config) shrunk(s *scenario.Scenario, d consolidate.Decider) (*report.ConsolidationSide, consolidate.Outcome, error) {
	o, err := consolidate.Run(s, d, c.shrinkLimit())
	if err != nil {
		return nil, o, err
	}
	out := &report.ConsolidationSide{
		PassSeconds: o.Pass.Took.Seconds(), ConvergeSeconds: o.Converge.Took.Seconds(),
		PassCPU: o.Pass.CPU.Seconds(), ConvergeCPU: o.Converge.CPU.Seconds(),
		Before: o.Before, After: o.After, Nodes: o.Nodes, Evictions: o.Evictions, TimedOut: o.TimedOut,
		Rounds: o.Rounds, Launched: o.Launched,
	}
	if err := o.Audit(s); err != nil {
		out.Invalid = err.Error()
	}
	return out, o, nil
}

// shrinkMethod says what the numbers about consolidation are.
func (c config) shrinkMethod() []string {
	return []string{
		"Consolidation: the clusters were really full once, then most Deployments were scaled down; there are PodDisruptionBudgets, some of which allow nothing, pods that ask not to be disrupted, spread over zones and nodes, spot and on demand, three zones and pools. \"-free\" leaves out the blocks and the topology rules: there the bound is a fair yardstick.",
		"Both sides get the same objects, may disrupt all nodes at once and replace spot by spot, and keep their other defaults: karve wants a replacement to save 5 %, upstream anything. Decisions are applied at once: each launched node is the cheapest that its NodeClaim accepts, and pods run where the decision puts them. Then the side looks again, until it finds nothing more or has computed for " + c.shrinkLimit().String() + ". kube-scheduler's filters judge where all pods that moved ended up.",
		"The first pass is one look at the whole cluster: ours converts all nodes, pools and budgets and searches everything, which gives all moves of a round; upstream's methods are asked once each, which gives one command each. Upstream's waits for validation are not counted; its limits of one and three minutes for a method hold.",
		"Evictions count a pod as often as it moves. The ratio is ours per $/h saved over upstream's, where both came to their end. A side that saves more must move more pods, and the last savings need the most evictions; the table therefore also has the number of pods that karve had moved when its cluster cost no more than upstream's in the end.",
	}
}
