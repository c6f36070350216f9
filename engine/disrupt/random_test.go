// SPDX-License-Identifier: Apache-2.0

package disrupt_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/engine/disrupt/disrupttest"
	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/schedule"
)

// checkMoves checks a plan against the cluster as a script: all moves are made at once, every pod
// of a removed node has exactly one node that kube-scheduler would bind it to, limits and quota
// hold, and no node that receives pods is removed.
func checkMoves(s *enginetest.Script, moves []disrupt.Move) error {
	removed := map[string]bool{}
	var p schedule.Plan
	receivers := map[string][]cluster.PodRef{}
	var errs []error
	for _, m := range moves {
		for _, key := range m.Nodes {
			if removed[key] {
				errs = append(errs, fmt.Errorf("node %s is removed twice", key))
			}
			removed[key] = true
		}
		for _, h := range m.Nominations {
			receivers[h.Node] = append(receivers[h.Node], h.Pods...)
		}
		p.Launches = append(p.Launches, m.Launches...)
		if m.Cause == disrupt.Underutilized && m.Saves() <= 0 && m.PriceBefore > 0 {
			errs = append(errs, fmt.Errorf("move of %v saves %s", m.Nodes, m.Saves()))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(receivers)) {
		if removed[key] {
			errs = append(errs, fmt.Errorf("node %s is removed and receives pods", key))
		}
		p.Nominations = append(p.Nominations, schedule.Nomination{Node: key, Pods: receivers[key]})
	}
	out := *s
	out.Nodes = slices.Clone(s.Nodes)
	for i := range out.Nodes {
		out.Nodes[i].MarkedForDeletion = out.Nodes[i].MarkedForDeletion || removed[out.Nodes[i].Key]
	}
	return errors.Join(append(errs, enginetest.Check(&out, p))...)
}

func poolsOf(s *enginetest.Script) []disrupt.Pool {
	var out []disrupt.Pool
	for _, p := range s.Pools {
		out = append(out, disrupt.Pool{Name: p.Name, Static: p.Static})
	}
	return out
}

// Rule CONSOLIDATION-6, Rule CONSOLIDATION-19, Rule CONSOLIDATION-14. For every random cluster:
// each move of a plan can be made, the cost falls with every plan, and after a while no move is
// left.
func TestRandomClustersConverge(t *testing.T) {
	seeds := 5000
	if testing.Short() {
		seeds = 60
	}
	moves, launches := 0, 0
	for seed := range uint64(seeds) {
		s := enginetest.WithoutPending(enginetest.Populated(seed, 25))
		f := disrupttest.Of(s)
		pools := poolsOf(s)
		settings := disrupt.Settings{SpotToSpot: seed%2 == 0}
		for pass := 0; ; pass++ {
			p := disrupt.Search(f.Builder.Snapshot(), f.ForDisruption(disrupttest.Now(), pools, settings), disrupt.Cursor{})
			if !p.Done {
				t.Fatalf("seed %d: a search without a bound is not done", seed)
			}
			if len(p.Moves) == 0 {
				break
			}
			moves += len(p.Moves)
			if err := checkMoves(f.Script(s), p.Moves); err != nil {
				t.Fatalf("seed %d, pass %d: %v\n%s", seed, pass, err, enginetest.Format(f.Script(s)))
			}
			before, nodes := f.Price(), len(f.Nodes)
			if err := f.Apply(p.Moves); err != nil {
				t.Fatalf("seed %d, pass %d: %v", seed, pass, err)
			}
			launches += f.Launched
			if after := f.Price(); after > before || after == before && len(f.Nodes) >= nodes {
				t.Fatalf("seed %d, pass %d: %d nodes for %s became %d for %s", seed, pass, nodes, before, len(f.Nodes), after)
			}
			if pass > 20 {
				t.Fatalf("seed %d: no end", seed)
			}
		}
	}
	t.Logf("%d moves, %d launches", moves, launches)
}

// Rule CONSOLIDATION-7: the order of nodes, pools and pods does not matter.
func TestOrderDoesNotMatter(t *testing.T) {
	for seed := range uint64(60) {
		s := enginetest.WithoutPending(enginetest.Populated(seed, 25))
		search := func(in disrupt.Input) string {
			return fmt.Sprintf("%+v", disrupt.Search(s.Snapshot(), in, disrupt.Cursor{}))
		}
		in := disrupttest.Of(s).ForDisruption(disrupttest.Now(), poolsOf(s), disrupt.Settings{SpotToSpot: true})
		want := search(in)
		r := rand.New(rand.NewPCG(seed, 1))
		r.Shuffle(len(in.Nodes), func(i, j int) { in.Nodes[i], in.Nodes[j] = in.Nodes[j], in.Nodes[i] })
		r.Shuffle(len(in.Pools), func(i, j int) { in.Pools[i], in.Pools[j] = in.Pools[j], in.Pools[i] })
		r.Shuffle(len(s.Nodes), func(i, j int) { s.Nodes[i], s.Nodes[j] = s.Nodes[j], s.Nodes[i] })
		r.Shuffle(len(s.Pods), func(i, j int) { s.Pods[i], s.Pods[j] = s.Pods[j], s.Pods[i] })
		if got := search(in); got != want {
			t.Fatalf("seed %d: %s\nthen %s", seed, want, got)
		}
	}
}

// Rule CONSOLIDATION-8: a search in several calls, with the moves of earlier calls under way,
// ends, keeps budgets, and all its moves can be made together.
func TestSlicesAddUp(t *testing.T) {
	for _, steps := range []int{1, 7, 40} {
		for seed := range uint64(3) {
			f := disrupttest.Overprovisioned(seed, 24)
			pools := disrupttest.OverprovisionedPools()
			for i := range pools {
				pools[i].Budgets = []disrupt.Budget{{Nodes: 20, Percent: true, Active: true}}
			}
			settings := disrupt.Defaults()
			settings.MaxSteps = steps
			in := f.ForDisruption(disrupttest.Now(), pools, settings)
			counts := disrupt.CountNodes(&in)
			script := f.Script(&enginetest.Script{Types: f.Types["default"], Pools: poolSpecs(f)})
			var from disrupt.Cursor
			known := map[string]bool{}
			for slice := 0; ; slice++ {
				p := disrupt.Search(f.Builder.Snapshot(), in, from)
				in.Underway = append(in.Underway, p.Moves...)
				for _, l := range p.Kept {
					known[l.Key] = true
				}
				if from = p.Next; p.Done {
					break
				}
				if slice > 5000 {
					t.Fatalf("seed %d: no end", seed)
				}
			}
			if err := checkMoves(script, in.Underway); err != nil {
				t.Fatalf("seed %d, %d steps: %v", seed, steps, err)
			}
			gone := map[string]int{}
			for _, m := range in.Underway {
				for _, key := range m.Nodes {
					known[key] = true
					gone[f.Nodes[key].Pool]++
				}
			}
			for i := range pools {
				if most, _ := disrupt.MaxDown(&pools[i], counts[pools[i].Name].Nodes, disrupt.Underutilized); gone[pools[i].Name] > most {
					t.Errorf("seed %d, %d steps: pool %s loses %d nodes, %d are allowed", seed, steps, pools[i].Name, gone[pools[i].Name], most)
				}
			}
			if len(known) != len(in.Nodes) {
				t.Errorf("seed %d, %d steps: something is known of %d of %d nodes", seed, steps, len(known), len(in.Nodes))
			}
		}
	}
}

func poolSpecs(f *disrupttest.Cluster) []cluster.NodePool {
	var out []cluster.NodePool
	for _, name := range slices.Sorted(maps.Keys(f.Pools)) {
		out = append(out, f.Pools[name])
	}
	return out
}
