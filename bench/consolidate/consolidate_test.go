// SPDX-License-Identifier: Apache-2.0

package consolidate_test

import (
	"testing"
	"time"

	"github.com/karve-dev/karve/bench/consolidate"
	"github.com/karve-dev/karve/bench/karve"
	"github.com/karve-dev/karve/bench/scenario"
	"github.com/karve-dev/karve/bench/upstream"
)

// On small clusters too, karve's result costs no more than upstream's (within its random
// variation) and evicts not many more pods for each $/h saved; neither side loses a pod
// or puts one where kube-scheduler would not.
func TestKarveCostsNoMoreThanUpstream(t *testing.T) {
	var us, them consolidate.Outcome // of all clusters together
	for seed := range uint64(6) {
		s, err := scenario.Consolidate(t.Context(), scenario.Overprovisioned{Nodes: 30, Seed: seed, Budget: "100%"})
		if err != nil {
			t.Fatal(err)
		}
		d, err := upstream.NewDisruption(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		ours, theirs := shrink(t, s, karve.NewDisruption(s)), shrink(t, s, d)
		t.Logf("seed %d: from %.3f $/h: ours %.3f with %d evictions in %d rounds, upstream's %.3f with %d in %d",
			seed, ours.Before, ours.After, ours.Evictions, ours.Rounds, theirs.After, theirs.Evictions, theirs.Rounds)
		if ours.After > 1.08*theirs.After { // one node more or less of thirty; upstream's order is random
			t.Errorf("seed %d: ours costs %.3f $/h in the end, upstream's %.3f", seed, ours.After, theirs.After)
		}
		for _, x := range []struct {
			to *consolidate.Outcome
			of consolidate.Outcome
		}{{&us, ours}, {&them, theirs}} {
			x.to.Before, x.to.After, x.to.Evictions = x.to.Before+x.of.Before, x.to.After+x.of.After, x.to.Evictions+x.of.Evictions
		}
		bound, err := karve.ClusterBound(s)
		if err != nil {
			t.Fatal(err)
		}
		if bound <= 0 || bound > ours.After || bound > theirs.After {
			t.Errorf("seed %d: the bound is %.3f $/h, ours ends at %.3f, upstream's at %.3f", seed, bound, ours.After, theirs.After)
		}
	}
	if us.After > costTolerance*them.After {
		t.Errorf("ours costs %.3f $/h in the end, upstream's %.3f", us.After, them.After)
	}
	if us.PerDollar() > mostPerDollar*them.PerDollar() {
		t.Errorf("ours moves %.1f pods for each $/h saved, upstream %.1f", us.PerDollar(), them.PerDollar())
	}
}

// costTolerance allows for upstream's random order, which may end cheaper than usual: on two of
// the six its end varies by 4 % and by 28 %.
const costTolerance = 1.01

// mostPerDollar is how many pods ours may move for each $/h saved, of upstream's, over all
// clusters together. Upstream's order is random: where it ends early, at a higher price, it
// has moved only those pods that save most.
const mostPerDollar = 1.1

func shrink(t *testing.T, s *scenario.Scenario, d consolidate.Decider) consolidate.Outcome {
	t.Helper()
	o, err := consolidate.Run(s, d, 5*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Audit(s); err != nil {
		t.Error(err)
	}
	if o.TimedOut || o.After >= o.Before || len(o.History) == 0 {
		t.Errorf("timed out: %v; from %.3f to %.3f $/h", o.TimedOut, o.Before, o.After)
	}
	if n, ok := o.EvictionsAt(o.After); !ok || n > o.Evictions {
		t.Errorf("%d of %d evictions until the end, %v", n, o.Evictions, ok)
	}
	return o
}
