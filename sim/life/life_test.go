package life

import (
	"testing"
	"time"

	"github.com/karve-dev/karve/engine/offer"
)

// TestDays lives a day in each of many clusters. Nothing that users rely on is broken at
// any instant, and a few hours after the load stops changing every cluster is about as
// cheap as one that is bought anew: all together within 10 %, none far off. (Budgets of one
// node at a time forbid moves that would take two, and spot nodes are replaced by spot only
// with a choice of types, so that some stay a little dearer.)
func TestDays(t *testing.T) {
	seeds := uint64(200)
	if testing.Short() || race {
		seeds = 20
	}
	var all Bill
	moves, undone := 0, 0
	for seed := range seeds {
		c := Day(seed, nil)
		start := time.Now()
		c.Live(24 * time.Hour)
		for i := 0; i < 30 && len(c.moves) > 0; i++ { // nodes expire at any time
			c.Live(time.Minute)
		}
		b := c.Bill()
		all.Paid, all.Bound, all.Fresh, all.Floor = all.Paid+b.Paid, all.Bound+b.Bound, all.Fresh+b.Fresh, all.Floor+b.Floor
		t.Logf("seed %d: %v nodes %d, pods %d, %s, %+v rests %d", seed, time.Since(start), len(c.machines), len(c.pods), b, c.Stats, c.Watch.Rests)
		for i, f := range c.Watch.Faults {
			if i < 5 {
				t.Errorf("seed %d: %s", seed, f)
			}
		}
		unsettled(t, seed, c)
		moves, undone = moves+c.Stats.Moves, undone+c.Stats.Undone
		if b.Paid < b.Floor {
			t.Errorf("seed %d: costs %s, less than is possible", seed, b)
		}
		if most := offer.Price(float64(b.Fresh)*1.5) + slack; b.Paid > most {
			t.Errorf("seed %d: costs %s after %s of quiet", seed, b, 24*time.Hour-Quiet)
		}
	}
	if float64(all.Paid) > 1.1*float64(all.Fresh) {
		t.Errorf("all clusters together cost %s after hours of quiet, more than 10%% over what they would cost anew", all)
	}
	if float64(all.Paid) > 1.15*float64(all.Floor) {
		t.Errorf("all clusters together cost %s after hours of quiet, more than 15%% over what is possible", all)
	}
	if undone*10 > moves {
		t.Errorf("%d machines were bought for pods that %d moves displaced", undone, moves)
	}
	t.Logf("together: %s; %.1f%% over the floor; %d moves, %d undone by the scheduler", all, 100*(float64(all.Paid)/float64(all.Floor)-1), moves, undone)
}

// slack is what a cluster of a few nodes may cost more whatever its size: less than the
// smallest machine.
const slack = offer.Price(30e6)

// unsettled says whose pods do not run although everything has been quiet for hours.
func unsettled(t *testing.T, seed uint64, c *Cluster) {
	t.Helper()
	for _, w := range c.workloads {
		if w.Every == 0 && running(w) != w.Replicas {
			t.Errorf("seed %d: %d of %d pods of %s run at the end", seed, running(w), w.Replicas, w.Name)
		}
	}
	for _, m := range c.machines {
		if m.tainted && m.move == nil && !m.deleting {
			t.Errorf("seed %d: %s is left tainted", seed, m.key)
		}
	}
}
