// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"flag"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/schedule"
)

var (
	clusters = flag.Int("clusters", 1200, "how many random clusters to judge")
	first    = flag.Uint64("seed", 0, "seed of the first random cluster")
)

// TestPlansPassTheScheduler: the scheduler carries out every plan for random clusters
// of every semantic, with any offering of each launch. A seed that
// fails prints a transcript to keep in engine/schedule/testdata.
func TestPlansPassTheScheduler(t *testing.T) { judgeRandom(t, enginetest.RandomFull) }

// TestPlainPlansPassTheScheduler is the same without neighbours, ports and volumes:
// a failure here is not about topology.
func TestPlainPlansPassTheScheduler(t *testing.T) { judgeRandom(t, enginetest.Random) }

func judgeRandom(t *testing.T, random func(seed uint64, pods int) *enginetest.Script) {
	var placed, shown atomic.Int64
	const shards = 2
	t.Run("clusters", func(t *testing.T) {
		for shard := range uint64(shards) {
			t.Run(fmt.Sprint(shard), func(t *testing.T) {
				t.Parallel()
				for seed := *first + shard; seed < *first+uint64(*clusters); seed += shards {
					script := random(seed, 1+int(seed%32))
					placed.Add(int64(count(schedule.Solve(script.Snapshot()))))
					if len(rejections(script, seed)) == 0 {
						continue
					}
					t.Errorf("seed %d: the scheduler refuses the plan", seed)
					if shown.Add(1) <= 3 {
						t.Log(transcript(script, seed))
					}
				}
			})
		}
	})
	t.Logf("%d pods placed in %d clusters", placed.Load(), *clusters)
	if placed.Load() < int64(*clusters) {
		t.Errorf("only %d pods were placed: the clusters exercise too little", placed.Load())
	}
}

func count(p schedule.Plan) int {
	n := 0
	for _, l := range p.Launches {
		n += len(l.Pods)
	}
	for _, x := range p.Nominations {
		n += len(x.Pods)
	}
	return n
}

// rejections solves the script and has the plan judged twice.
func rejections(s *enginetest.Script, seed uint64) []Rejection {
	plan := schedule.Solve(s.Snapshot())
	return append(Replay(s, plan), ReplayAny(s, plan, seed)...)
}

// transcript is the failing cluster made small, as testdata has it.
func transcript(s *enginetest.Script, seed uint64) string {
	// The smallest cluster is to fail as the large one did, not in any other way.
	want := rejections(s, seed)[0].Plugin
	small := Shrink(s, 4000, func(s *enginetest.Script) bool {
		got := rejections(s, seed)
		return len(got) > 0 && got[0].Plugin == want
	})
	var w strings.Builder
	fmt.Fprintf(&w, "\n# Random cluster %d: the scheduler refuses the plan below.\n", seed)
	for _, r := range rejections(small, seed) {
		fmt.Fprintf(&w, "# %s\n", r)
	}
	fmt.Fprintf(&w, "%s----\n%s", enginetest.Format(small), printed(schedule.Solve(small.Snapshot())))
	return w.String()
}

// printed writes the plan, unless it is so wrong that it cannot be printed.
func printed(p schedule.Plan) string {
	for i, l := range p.Launches {
		if len(l.Offerings) == 0 {
			return fmt.Sprintf("launch %d of %d has no offerings\n", i+1, len(p.Launches))
		}
	}
	return enginetest.Print(p)
}

// TestMissedNodes counts pods that were left out though a node that exists would
// take them. It does not fail yet: leaving a pod out can be the price of another's place.
func TestMissedNodes(t *testing.T) {
	missed, unplaced := 0, 0
	for seed := *first; seed < *first+uint64(*clusters)/4; seed++ {
		script := enginetest.RandomFull(seed, 1+int(seed%32))
		plan := schedule.Solve(script.Snapshot())
		for _, u := range plan.Unplaced {
			unplaced += len(u.Pods)
		}
		found := Misses(script, plan)
		missed += len(found)
		if len(found) > 0 && testing.Verbose() {
			t.Logf("seed %d: %s", seed, found[0])
		}
	}
	t.Logf("%d of %d pods left out would fit on a node as things are", missed, unplaced)
}

// TestShrink: everything unrelated to a failure is removed, everything it needs is kept.
func TestShrink(t *testing.T) {
	s := enginetest.RandomFull(3, 30)
	s.Pods[17].Name = "culprit"
	fails := func(s *enginetest.Script) bool {
		for _, p := range s.Pods {
			if p.Name == "culprit" && len(s.Pools) > 1 {
				return true
			}
		}
		return false
	}
	small := Shrink(s, 4000, fails)
	if len(small.Pods) != 1 || len(small.Pools) != 2 || len(small.Nodes) != 0 || !fails(small) {
		t.Errorf("shrunk to %d pods, %d pools and %d nodes", len(small.Pods), len(small.Pools), len(small.Nodes))
	}
	if len(s.Pods) < 30 || !fails(s) {
		t.Error("shrinking changed the script itself")
	}
}
