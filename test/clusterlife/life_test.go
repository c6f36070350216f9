// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/karve-dev/karve/engine/offering"
)

// TestDays runs a day in each of many clusters. No promise to users is broken at
// any instant, no fleet ever returns to its state before a move unless something changed from
// outside, whatever kube-scheduler made of the move, and a few hours after the load stops changing
// all clusters together cost at most 10 %
// more than the lower bound (see floor.go), none far more than a cluster launched anew.
// (Budgets of one node at a time forbid moves that would take two, pods that moved cost
// something, too, and spot nodes are replaced by spot only with several types to choose from.)
func TestDays(t *testing.T) {
	var all Costs
	var total Stats
	first := firstSeed(t)
	for i, l := range liveAll(t, first, seeds()) {
		seed := first + uint64(i)
		b, s := l.bill, l.cluster.Stats
		all.Actual, all.SolveBound, all.NewCluster, all.Floor = all.Actual+b.Actual, all.SolveBound+b.SolveBound, all.NewCluster+b.NewCluster, all.Floor+b.Floor
		total.Moves, total.Undone, total.Pauses = total.Moves+s.Moves, total.Undone+s.Undone, total.Pauses+s.Pauses
		t.Logf("seed %d: %v nodes %d, pods %d, %s, %+v", seed, l.took, len(l.cluster.nodes.list), len(l.cluster.workloads.pods), b, s)
		for i, f := range l.cluster.Checker.Violations {
			if i < 5 {
				t.Errorf("seed %d: %s", seed, f)
			}
		}
		unsettled(t, seed, l.cluster)
		if b.Actual < b.Floor {
			t.Errorf("seed %d: costs %s, less than is possible", seed, b)
		}
		if len(b.Blocked) == 0 && b.NewCluster < b.Floor {
			t.Errorf("seed %d: %s: less than the floor says", seed, b)
		}
		if most := offering.Price(float64(b.NewCluster)*1.5) + slack; b.Actual > most {
			t.Errorf("seed %d: costs %s after %s of quiet", seed, b, 24*time.Hour-LoadEnds)
		}
	}
	if float64(all.Actual) > 1.1*float64(all.NewCluster) {
		t.Errorf("all clusters together cost %s after hours of quiet, more than 10%% over what they would cost anew", all)
	}
	if float64(all.Actual) > 1.1*float64(all.Floor) {
		t.Errorf("all clusters together cost %s after hours of quiet, more than 10%% over what is possible", all)
	}
	if total.Undone*50 > total.Moves {
		t.Errorf("%d nodes were launched for pods that %d moves displaced", total.Undone, total.Moves)
	}
	t.Logf("together: %s; %.1f%% over the floor; %d moves, %d undone by the scheduler, %d pauses for it",
		all, 100*(float64(all.Actual)/float64(all.Floor)-1), total.Moves, total.Undone, total.Pauses)
}

// firstSeed is that of the first day: 0, or LIFE_FROM, as other days are as good.
func firstSeed(t *testing.T) uint64 {
	t.Helper()
	from := os.Getenv("LIFE_FROM")
	if from == "" {
		return 0
	}
	seed, err := strconv.ParseUint(from, 10, 64)
	if err != nil {
		t.Fatalf("LIFE_FROM: %v", err)
	}
	return seed
}

// seeds is how many days are lived.
func seeds() int {
	if testing.Short() {
		return 20
	}
	return 200
}

// lived is a day that is over.
type lived struct {
	cluster *Cluster
	bill    Costs
	took    time.Duration
}

// liveAll runs the days of n seeds, as many at a time as there are processors.
func liveAll(t *testing.T, first uint64, n int) []lived {
	t.Helper()
	out := make([]lived, n)
	t.Run("live", func(t *testing.T) { // ends when all have
		for i := range out {
			seed := first + uint64(i)
			t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
				t.Parallel()
				out[i] = live(seed)
			})
		}
	})
	return out
}

func live(seed uint64) lived {
	start := time.Now()
	c := Day(seed, nil)
	c.Live(24 * time.Hour)
	for i := 0; i < 30 && len(c.disruption.moves) > 0; i++ { // nodes expire at any time
		c.Live(time.Minute)
	}
	b := c.Costs()
	c.mirror, c.events, c.log = nil, nil, nil // not needed any more, and there are many days
	return lived{c, b, time.Since(start)}
}

// slack is how much more a cluster of a few nodes may cost whatever its size: less than the
// smallest node.
const slack = offering.Price(30e6)

// unsettled names the workloads whose pods do not run although nothing changed for hours.
func unsettled(t *testing.T, seed uint64, c *Cluster) {
	t.Helper()
	for _, w := range c.workloads.list {
		if !w.isJob() && running(w) != w.Replicas {
			t.Errorf("seed %d: %d of %d pods of %s run at the end", seed, running(w), w.Replicas, w.Name)
		}
	}
	for _, m := range c.nodes.list {
		if m.tainted && m.move == nil && !m.isDeleting() {
			t.Errorf("seed %d: %s is left tainted", seed, m.key)
		}
	}
}
