// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/reason"
	"github.com/karve-dev/karve/engine/schedule"
)

// lawClusters are the scripts on which a law is tested: plain ones and ones with every
// semantic, in turn.
func lawClusters(n uint64, pods int) func(yield func(string, *enginetest.Script) bool) {
	return func(yield func(string, *enginetest.Script) bool) {
		for seed := range n {
			if !yield(fmt.Sprint("Random seed ", seed), enginetest.Random(seed, pods)) ||
				!yield(fmt.Sprint("RandomFull seed ", seed), enginetest.RandomFull(seed, pods)) {
				return
			}
		}
	}
}

// TestOrderDoesNotMatter: pods, nodes, pools and types in another order give the same plan.
func TestOrderDoesNotMatter(t *testing.T) {
	for name, script := range lawClusters(150, 25) {
		want := enginetest.Print(schedule.Solve(script.Snapshot()))
		if diff := cmp.Diff(want, enginetest.Print(schedule.Solve(shuffle(script, 7).Snapshot()))); diff != "" {
			t.Errorf("%s: another order changes the plan:\n%s", name, diff)
		}
	}
}

// TestPricesScale: with prices times four, the same nodes are launched for four times the
// price.
func TestPricesScale(t *testing.T) {
	for name, script := range lawClusters(200, 20) {
		before := schedule.Solve(script.Snapshot())
		for i := range script.Types {
			for j := range script.Types[i].Offerings {
				script.Types[i].Offerings[j].Price *= 4
			}
		}
		after := schedule.Solve(script.Snapshot())
		if got, want := after.Price(), 4*before.Price(); got != want {
			t.Errorf("%s: prices times 4 cost %s, want %s", name, got, want)
		}
		if len(after.Launches) != len(before.Launches) {
			t.Errorf("%s: prices times 4 launch %d nodes instead of %d", name, len(after.Launches), len(before.Launches))
		}
	}
}

// TestSolvedClustersStaySolved: after a plan is carried out no further node is needed for the
// pods it placed, and the pods it left out are left out again. Limits are lifted: a plan counts
// the largest of its offerings against them, and the launched node may be smaller. Launches
// with several possible values for a label are left out as well: a plan holds for all of the
// values, and the node has one.
func TestSolvedClustersStaySolved(t *testing.T) {
	for name, script := range lawClusters(200, 25) {
		for i := range script.Pools {
			script.Pools[i].Limits = nil
		}
		for _, typ := range script.Types {
			for key, values := range typ.Labels {
				typ.Labels[key] = values[:min(1, len(values))]
			}
		}
		plan := schedule.Solve(script.Snapshot())
		again := schedule.Solve(enginetest.AfterPlan(script, plan).Snapshot())
		if asksForMinValues(script) {
			// Registered nodes have no minValues: they may take pods that these kept away.
			again.Nominations = nil
		}
		if len(again.Launches)+len(again.Nominations) > 0 {
			t.Errorf("%s: the solved cluster is not at rest:\n%s\nafter\n%s", name, enginetest.Print(again), enginetest.Print(plan))
		}
	}
}

func asksForMinValues(s *enginetest.Script) bool {
	return slices.ContainsFunc(s.Pools, func(p cluster.NodePool) bool {
		return slices.ContainsFunc(p.Requirements, func(r constraint.Rule) bool { return r.MinValues > 0 })
	})
}

// TestUselessOfferingsChangeNothing: a type that is out of stock, a pool without offerings and a
// blocked pool change no launch.
func TestUselessOfferingsChangeNothing(t *testing.T) {
	for name, script := range lawClusters(150, 20) {
		before := schedule.Solve(script.Snapshot())
		more := *script
		more.Types = append([]offering.InstanceType{{
			Name: "A-sold-out", Capacity: quantity.Amounts{quantity.NameCPU: 1e6, quantity.NameMemory: 1 << 50, quantity.NamePods: 1000},
			Offerings: []offering.Offering{{Zone: "1", CapacityType: offering.OnDemand, Price: 1, Unavailable: "sold out"}},
		}}, script.Types...)
		more.Pools = append([]cluster.NodePool{
			{Name: "a-empty", NodeClass: enginetest.NodeClass, Weight: 100, Requirements: cluster.Term{{Key: cluster.LabelInstanceType, Operator: constraint.In, Values: []string{"none"}}}},
			{Name: "a-blocked", NodeClass: enginetest.NodeClass, Weight: 100, Blocked: reason.NodePoolNotReady, BlockedDetail: "not ready"},
		}, script.Pools...)
		after := schedule.Solve(more.Snapshot())
		if diff := cmp.Diff(enginetest.Print(placed(before)), enginetest.Print(placed(after))); diff != "" {
			t.Errorf("%s: useless offerings change the plan:\n%s", name, diff)
		}
	}
}

// placed is a plan without the pods that were left out, whose funnels name every pool.
func placed(p schedule.Plan) schedule.Plan {
	p.Unplaced = nil
	return p
}

// TestSameBytesOnAnyMachine (Rule PLAN-10): the hash of many plans does not depend on the
// number of processors, nor on the run.
func TestSameBytesOnAnyMachine(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	hashes := map[string]int{}
	for _, n := range []int{1, 2, 4} {
		runtime.GOMAXPROCS(n)
		h := sha256.New()
		for _, script := range lawClusters(100, 30) {
			fmt.Fprintf(h, "%+v", schedule.Solve(script.Snapshot()))
		}
		hashes[fmt.Sprintf("%x", h.Sum(nil))] = n
	}
	if len(hashes) != 1 {
		t.Errorf("plans differ by GOMAXPROCS: %v", hashes)
	}
}

// TestAnyHistory: a Builder that went through any history of changes gives the same plan as
// one with only the final state, with every semantic mixed.
func TestAnyHistory(t *testing.T) {
	for seed := range uint64(150) {
		script := enginetest.RandomFull(seed, 25)
		b := enginetest.RandomFull(seed+5000, 10).Builder()
		r := rand.New(rand.NewPCG(seed, 4))
		for range 150 {
			stir(b, script, r)
		}
		forget(b, enginetest.RandomFull(seed+5000, 10))
		tell(b, script)
		want := enginetest.Print(schedule.Solve(script.Snapshot()))
		if diff := cmp.Diff(want, enginetest.Print(schedule.Solve(b.Snapshot()))); diff != "" {
			t.Fatalf("seed %d: history changes the plan:\n%s\n%s", seed, diff, enginetest.Format(script))
		}
	}
}

// stir changes, moves, removes or re-adds an object.
func stir(b *cluster.Builder, s *enginetest.Script, r *rand.Rand) {
	pod, pool := s.Pods[r.IntN(len(s.Pods))], s.Pools[r.IntN(len(s.Pools))]
	switch r.IntN(14) {
	case 0:
		b.RemovePod(pod.UID)
	case 1:
		pod.Node = fmt.Sprint("node", r.IntN(3))
		b.SetPod(pod)
	case 2:
		pod.Node = ""
		b.SetPod(pod)
	case 3:
		pod.Labels = maps.Clone(pod.Labels)
		pod.Labels["app"] = string(rune('a' + r.IntN(4)))
		b.SetPod(pod)
	case 4:
		pod.Terminating = true
		b.SetPod(pod)
	case 5:
		b.SetNamespace("team-a", map[string]string{"env": []string{"prod", "test"}[r.IntN(2)]})
	case 6:
		b.RemoveNamespace("team-b")
	case 7:
		pool.Weight, pool.Static = pool.Weight+5, !pool.Static
		b.SetPool(pool)
	case 8:
		b.RemovePool(pool.Name)
	case 9:
		stirNode(b, s, r)
	case 10:
		b.SetSettings(cluster.Settings{Preferences: cluster.Ignore})
	case 11:
		schedule.Solve(b.Snapshot())
	case 12:
		pod.Requests = devices(pod.Requests, r)
		b.SetPod(pod)
	case 13:
		types := slices.Clone(s.Types)
		for i := range types {
			types[i].Capacity = devices(types[i].Capacity, r)
		}
		b.SetCatalog(enginetest.NodeClass, types, s.Quotas)
	}
}

func stirNode(b *cluster.Builder, s *enginetest.Script, r *rand.Rand) {
	if len(s.Nodes) == 0 {
		return
	}
	node := s.Nodes[r.IntN(len(s.Nodes))]
	if r.IntN(2) == 0 {
		b.RemoveNode(node.Key)
		return
	}
	node.Labels = maps.Clone(node.Labels)
	node.Labels[cluster.LabelZone] = fmt.Sprint(1 + r.IntN(4))
	node.TakesNoPods = r.IntN(2) == 0
	node.Allocatable = devices(node.Allocatable, r)
	b.SetNode(node)
}

// forget removes the objects that a script added.
func forget(b *cluster.Builder, s *enginetest.Script) {
	for _, p := range s.Pods {
		b.RemovePod(p.UID)
	}
	for _, node := range s.Nodes {
		b.RemoveNode(node.Key)
	}
	for _, p := range s.Pools {
		b.RemovePool(p.Name)
	}
	for _, d := range s.Daemons {
		b.RemoveDaemon(d.UID)
	}
	for name := range s.Namespaces {
		b.RemoveNamespace(name)
	}
}

func tell(b *cluster.Builder, s *enginetest.Script) {
	b.SetSettings(s.Settings)
	b.SetCatalog(enginetest.NodeClass, s.Types, s.Quotas)
	for name, labels := range s.Namespaces {
		b.SetNamespace(name, labels)
	}
	setAll(b, s)
}
