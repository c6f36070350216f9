// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/karve-dev/karve/bench/report"
	"github.com/karve-dev/karve/bench/scenario"
	"github.com/karve-dev/karve/engine/cluster"
)

// item is one row of the run: a comparison of both sides on what make builds, or,
// where measure is set, something else.
type item struct {
	name string
	make func(context.Context) (*scenario.Scenario, error)
	// alone says why upstream is left out; empty when it is not.
	alone string
	// limit is how long upstream may take; 0 is no limit.
	limit time.Duration
	// wholePods takes the bound from package bound, too. Elsewhere that takes minutes, or is no higher than the
	// plan's own.
	wholePods bool
	// plotted items follow each other by size; one too slow for upstream ends its line.
	plotted bool
	measure func(context.Context) ([]report.Row, error)
	// shrink compares how both sides consolidate.
	shrink func(context.Context) (report.Consolidation, error)
}

// Names of the rows that the plot shows begin so; the size follows.
const podsRow, nodesRow = "diverse ", "growing nodes "

// items lists the run in order.
func (c config) items() []item {
	var out []item
	for _, n := range pick(c.quick, []int{500, 1000, 2000}, []int{1000, 2000, 5000, 10000, 20000}) {
		out = append(out, item{name: podsRow + strconv.Itoa(n), make: always(func() *scenario.Scenario { return scenario.Diverse(n) })})
	}
	out = append(out, c.preferences()...)
	out = append(out, c.azure()...)
	out = append(out, c.existing()...)
	out = append(out, item{name: c.arrivalName(), measure: c.arrivals})
	out = append(out, item{name: c.memoryName(), measure: c.memory})
	out = append(out, c.growing()...)
	out = append(out, c.hard()...)
	return append(out, c.consolidations()...)
}

func (c config) preferences() []item {
	n := pick(c.quick, 500, 4000)
	with := func(name string, s cluster.Settings) item {
		return item{name: fmt.Sprintf("preferences %d %s", n, name), make: always(func() *scenario.Scenario { return scenario.Preferences(n, s) })}
	}
	unlimited := with("respect unlimited", cluster.Settings{Preferences: cluster.Respect, PreferenceSurplusPermille: cluster.UnlimitedPreferenceSurplus})
	unlimited.alone = "surplus without bound; upstream's is the row above"
	return []item{
		with("respect", cluster.Settings{Preferences: cluster.Respect, PreferenceSurplusPermille: 100}),
		unlimited,
		with("ignore", cluster.Settings{Preferences: cluster.Ignore}),
	}
}

// azure has rows without constraints too: the gap to the lower bound, which knows
// of resources alone, means something there.
func (c config) azure() []item {
	of := func(name string, n int, plain bool) item {
		return item{name: fmt.Sprintf("%s %d", name, n), wholePods: true, make: func(ctx context.Context) (*scenario.Scenario, error) {
			return scenario.Azure(ctx, n, plain)
		}}
	}
	small := of("azure unconstrained", 1000, true)
	if c.quick {
		return []item{of("azure", 500, false), of("azure unconstrained", 500, true)}
	}
	large := of("azure unconstrained", 10000, true)
	large.alone = "upstream: see the constrained row and the smaller one"
	return []item{of("azure", 10000, false), large, small, {name: "one deployment of 4000", wholePods: true, make: func(ctx context.Context) (*scenario.Scenario, error) {
		return scenario.Deployments(ctx, scenario.Deployment{Replicas: 4000, Milli: 250, MiB: 500})
	}}}
}

func (c config) existing() []item {
	of := func(nodes, bound, waiting int) item {
		return item{
			name: fmt.Sprintf("existing %d on %d nodes with %d pods", waiting, nodes, bound),
			make: always(func() *scenario.Scenario { return scenario.Existing(nodes, bound, waiting) }),
		}
	}
	if c.quick {
		return []item{of(100, 2000, 200)}
	}
	return []item{of(1000, 100000, 2000), of(5000, 100000, 2000)}
}

func (c config) arrivalName() string {
	return fmt.Sprintf("one pod arrives among %d nodes", pick(c.quick, 1000, 5000))
}

func (c config) memoryName() string {
	return fmt.Sprintf("memory of %d nodes with %d pods", pick(c.quick, 1000, 5000), pick(c.quick, 30000, 150000))
}

// growing is the same batch on ever more nodes, over a decade.
func (c config) growing() []item {
	var out []item
	for _, n := range pick(c.quick, []int{100, 200, 500, 1000}, []int{500, 1000, 2000, 5000}) {
		waiting := pick(c.quick, 100, 500)
		out = append(out, item{
			name: fmt.Sprintf("%s%d, %d pods pending", nodesRow, n, waiting), plotted: true,
			make: always(func() *scenario.Scenario { return scenario.Existing(n, 20*n, waiting) }),
		})
	}
	return out
}

// hard has each family at the size at which it must be decided within a second, at the half of it,
// and, karve alone, at twice the size, which shows how the time grows.
func (c config) hard() []item {
	var out []item
	for _, f := range scenario.HardFamilies() {
		for _, n := range pick(c.quick, []int{f.Size / 4}, []int{f.Size / 2, f.Size, 2 * f.Size}) {
			it := item{name: fmt.Sprintf("hard %s %d", f.Name, n), limit: pick(c.quick, 10*time.Second, time.Minute), wholePods: f.Name == scenario.TenantsApart, make: always(func() *scenario.Scenario { return f.Make(n) })}
			if n > f.Size {
				it.alone = "upstream is left out: the row shows how the time grows"
			}
			out = append(out, it)
		}
	}
	return out
}

func always(make func() *scenario.Scenario) func(context.Context) (*scenario.Scenario, error) {
	return func(context.Context) (*scenario.Scenario, error) { return make(), nil }
}

func pick[T any](quick bool, small, large T) T {
	if quick {
		return small
	}
	return large
}
