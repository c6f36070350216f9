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

// arrivals is how many pods come one after the other: enough for a 99th percentile.
const arrivals = 2000

// arrivals compares one decision about one pod in a warm cluster. Ours takes very
// many, of every kind in the mix; upstream a few, of a plain pod.
func (c config) arrivals(ctx context.Context) (report.Row, error) {
	nodes := pick(c.quick, 1000, 5000)
	row := report.Row{Scenario: c.arrivalName(), Pods: 1}
	s := scenario.Existing(nodes, 20*nodes, arrivals)
	waiting := scenario.Shuffled(s.Pending)
	s.Pending = nil
	got := karve.New(s).Arrive(waiting)
	row.Karve = warmSide(got)
	row.Note = fmt.Sprintf("%d arrivals: %d bound, %d would buy a node", len(waiting), got.Bound, got.Bought)
	if c.karveOnly {
		return row, nil
	}
	s.Pending = waiting[:1:1]
	upstream, err := theirs(ctx, s)
	if err != nil {
		return row, err
	}
	row.Upstream = upstream
	row.Compare()
	return row, nil
}

func warmSide(got karve.Arrivals) *report.Side {
	p50 := measure.Median(got.Samples)
	return &report.Side{
		Seconds: p50.Took.Seconds(), PodsPerSecond: 1 / p50.Took.Seconds(),
		P50Seconds: p50.Took.Seconds(), P99Seconds: measure.Percentile(got.Samples, 99).Took.Seconds(),
		BytesPerOp: p50.Bytes, Unscheduled: got.Unplaced, Runs: len(got.Samples),
	}
}

// memory is what a world occupies, builder and all, once the API objects it was
// made of are gone.
func (c config) memory(context.Context) (report.Row, error) {
	nodes, bound := pick(c.quick, 1000, 5000), pick(c.quick, 30000, 150000)
	before := measure.Heap()
	cluster := warmed(nodes, bound)
	heap := measure.Heap() - before
	got := cluster.Arrive(fresh(200))
	side := warmSide(got)
	return report.Row{
		Scenario: c.memoryName(),
		Karve:    &report.Side{HeapBytes: heap, BytesPerOp: side.BytesPerOp, Seconds: side.Seconds, Runs: side.Runs},
		Note:     "MB/op: one steady decision about one pod",
	}, nil
}

// warmed keeps nothing of the scenario but the world.
func warmed(nodes, bound int) *karve.Cluster {
	s := scenario.Existing(nodes, bound, 0)
	return karve.New(s)
}

func fresh(n int) []*corev1.Pod { return scenario.Shuffled(scenario.Diverse(n).Pending) }
