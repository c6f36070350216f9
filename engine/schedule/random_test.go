// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
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
	"github.com/karve-dev/karve/engine/schedule"
)

// TestRandomClusters checks every invariant of a plan on seeded scripts.
func TestRandomClusters(t *testing.T) { holdsOn(t, enginetest.Random, 3000) }

// TestFullClusters (Rule POD-3) checks them on scripts in which all semantics are mixed.
func TestFullClusters(t *testing.T) { holdsOn(t, enginetest.RandomFull, 1500) }

// Rule VOLUME-5.
func TestExclusiveClaims(t *testing.T) { holdsOn(t, enginetest.RandomExclusive, 600) }

func holdsOn(t *testing.T, random func(seed uint64, pods int) *enginetest.Script, snapshots uint64) {
	t.Helper()
	placed := uint64(0)
	for seed := range snapshots {
		script := random(seed, 1+int(seed%40))
		plan := schedule.Solve(script.Snapshot())
		if err := enginetest.Check(script, plan); err != nil {
			t.Errorf("seed %d: %v\n%s\n%s", seed, err, enginetest.Format(script), enginetest.Print(plan))
		}
		if gap := plan.Gap(); gap < 0 {
			t.Errorf("seed %d: costs %s and %v of its lower bound of %s more", seed, plan.Price(), gap, plan.LowerBound)
		}
		for _, l := range plan.Launches {
			placed += uint64(len(l.Pods))
		}
	}
	if placed < snapshots {
		t.Errorf("only %d pods were placed over all clusters: they no longer exercise launching", placed)
	}
}

// TestSolveIsDeterministic (Rule PLAN-10): neither the order in which objects were added nor
// the number of processors changes a byte of the plan.
func TestSolveIsDeterministic(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for seed := range uint64(200) {
		script := enginetest.Random(seed, 30)
		want := enginetest.Print(schedule.Solve(script.Snapshot()))
		runtime.GOMAXPROCS(1 + int(seed%4))
		shuffled := shuffle(script, seed)
		if diff := cmp.Diff(want, enginetest.Print(schedule.Solve(shuffled.Snapshot()))); diff != "" {
			t.Fatalf("seed %d: order of events changes the plan:\n%s", seed, diff)
		}
	}
}

func shuffle(s *enginetest.Script, seed uint64) *enginetest.Script {
	r := rand.New(rand.NewPCG(seed, 1))
	out := *s
	out.Pods = append([]cluster.Pod(nil), s.Pods...)
	out.Nodes = append([]cluster.Node(nil), s.Nodes...)
	out.Pools = append([]cluster.NodePool(nil), s.Pools...)
	out.Types = append([]offering.InstanceType(nil), s.Types...)
	r.Shuffle(len(out.Pods), func(i, j int) { out.Pods[i], out.Pods[j] = out.Pods[j], out.Pods[i] })
	r.Shuffle(len(out.Nodes), func(i, j int) { out.Nodes[i], out.Nodes[j] = out.Nodes[j], out.Nodes[i] })
	r.Shuffle(len(out.Pools), func(i, j int) { out.Pools[i], out.Pools[j] = out.Pools[j], out.Pools[i] })
	r.Shuffle(len(out.Types), func(i, j int) { out.Types[i], out.Types[j] = out.Types[j], out.Types[i] })
	return &out
}

// TestIncrementalSnapshot: a Builder that went through any history of changes gives the same
// plan as one with only the final state.
func TestIncrementalSnapshot(t *testing.T) {
	for seed := range uint64(200) {
		history(t, seed, enginetest.Random(seed, 30), enginetest.Random(seed+100000, 20))
	}
	for seed := range uint64(300) {
		history(t, seed, enginetest.RandomFull(seed, 30), enginetest.RandomFull(seed+100000, 20))
	}
}

// history takes a Builder of the script through random changes and back.
func history(t *testing.T, seed uint64, script, other *enginetest.Script) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 2))
	b := script.Builder()
	for _, p := range other.Pods {
		p.UID = "other-" + p.UID
		b.SetPod(p)
	}
	b.Snapshot()
	for range 200 {
		churn(b, script, r)
	}
	for _, p := range other.Pods {
		b.RemovePod("other-" + p.UID)
	}
	setAll(b, script)
	want := enginetest.Print(schedule.Solve(script.Snapshot()))
	if diff := cmp.Diff(want, enginetest.Print(schedule.Solve(b.Snapshot()))); diff != "" {
		t.Fatalf("seed %d: history changes the plan:\n%s\n%s", seed, diff, enginetest.Format(script))
	}
}

// churn removes, moves, changes or re-adds an object of the script.
func churn(b *cluster.Builder, s *enginetest.Script, r *rand.Rand) {
	pod := s.Pods[r.IntN(len(s.Pods))]
	pool := s.Pools[r.IntN(len(s.Pools))]
	switch r.IntN(10) {
	case 0:
		b.RemovePod(pod.UID)
	case 1:
		pod.Node = "node0"
		b.SetPod(pod)
	case 2:
		b.SetPod(pod)
	case 3:
		b.RemovePool(pool.Name)
	case 4:
		pool.Weight += 5
		b.SetPool(pool)
	case 5:
		if len(s.Nodes) > 0 {
			churnNode(b, s.Nodes[r.IntN(len(s.Nodes))], r)
		}
	case 6:
		if len(s.Daemons) > 0 {
			b.RemoveDaemon(s.Daemons[r.IntN(len(s.Daemons))].UID)
		}
	case 7:
		schedule.Solve(b.Snapshot())
	case 8:
		b.SetNamespace("default", map[string]string{"env": "test"})
		b.RemoveNamespace("team-b")
	case 9:
		pod.Labels = map[string]string{"app": "z", "tier": pod.Labels["app"]}
		pod.Terminating = r.IntN(2) == 0
		b.SetPod(pod)
	}
}

// churnNode removes a node, or replaces it in the builder by a changed one.
func churnNode(b *cluster.Builder, node cluster.Node, r *rand.Rand) {
	switch r.IntN(6) {
	case 0:
		b.RemoveNode(node.Key)
		return
	case 1:
		node.Labels = map[string]string{cluster.LabelZone: "2"}
	case 2:
		node.MarkedForDeletion = !node.MarkedForDeletion
	case 3:
		node.TakesNoPods, node.Initialized = !node.TakesNoPods, !node.Initialized
	case 4:
		node.Allocatable = node.Allocatable.Add(quantity.Amounts{quantity.NameCPU: 500})
		node.Taints = append(slices.Clone(node.Taints), cluster.Taint{Key: "churned", Effect: cluster.NoSchedule})
	case 5:
		node.Allocatable = devices(node.Allocatable, r)
	}
	b.SetNode(node)
}

// devices are the amounts with a device that only some have.
func devices(a quantity.Amounts, r *rand.Rand) quantity.Amounts {
	return a.Add(quantity.Amounts{fmt.Sprintf("example.com/device-%d", r.IntN(30)): int64(r.IntN(3))})
}

// setAll adds the objects of the script's end state to the builder without starting
// over.
func setAll(b *cluster.Builder, s *enginetest.Script) {
	b.RemoveNamespace("default")
	for name, labels := range s.Namespaces {
		b.SetNamespace(name, labels)
	}
	for _, p := range s.Pools {
		b.SetPool(p)
	}
	for _, d := range s.Daemons {
		b.SetDaemon(d)
	}
	for _, node := range s.Nodes {
		b.SetNode(node)
	}
	for _, p := range s.Pods {
		b.SetPod(p)
	}
}

// TestFormerSelectorsChangeNothing (Rule PLAN-10): labels that only selectors of deleted pods
// read do not distinguish pending pods, wherever those pods were meanwhile.
func TestFormerSelectorsChangeNothing(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 5))
		script := enginetest.RandomFull(seed, 30)
		if seed%2 == 0 {
			script = enginetest.Populated(seed, 30)
		}
		for i := range script.Pods {
			p := &script.Pods[i]
			p.Labels = maps.Clone(p.Labels)
			if p.Labels == nil {
				p.Labels = map[string]string{}
			}
			p.Labels["once"], p.Labels["twice"] = string(rune('a'+r.IntN(3))), string(rune('a'+r.IntN(2)))
		}
		b := script.Builder()
		for range 30 {
			curious(b, script, r)
		}
		b.RemovePod("curious")
		for _, node := range script.Nodes {
			b.SetNode(node)
		}
		for _, p := range script.Pods {
			b.SetPod(p)
		}
		want := enginetest.Print(schedule.Solve(script.Snapshot()))
		if diff := cmp.Diff(want, enginetest.Print(schedule.Solve(b.Snapshot()))); diff != "" {
			t.Fatalf("seed %d: a selector that is gone changes the plan:\n%s\n%s", seed, diff, enginetest.Format(script))
		}
	}
}

// curious adds or deletes a pod whose selector reads labels that no other selector reads,
// binds or unbinds pods, and lets nodes leave or not.
func curious(b *cluster.Builder, s *enginetest.Script, r *rand.Rand) {
	p := s.Pods[r.IntN(len(s.Pods))]
	switch r.IntN(6) {
	case 0:
		label := []string{"once", "twice"}[r.IntN(2)]
		p.UID, p.Node, p.Spreads = "curious", "", []cluster.TopologySpreadConstraint{{Key: cluster.LabelZone, MaxSkew: 1, Selector: cluster.Selector{
			Namespaces: []string{p.Namespace}, Labels: cluster.Term{{Key: label, Operator: constraint.In, Values: []string{"a"}}}}}}
		b.SetPod(p)
	case 1:
		b.RemovePod("curious")
	case 2:
		b.Snapshot()
	case 3:
		b.RemovePod(p.UID)
	case 4:
		if len(s.Nodes) > 0 {
			p.Node = s.Nodes[r.IntN(len(s.Nodes))].Name
		}
		b.SetPod(p)
	case 5:
		if len(s.Nodes) > 0 {
			node := s.Nodes[r.IntN(len(s.Nodes))]
			node.MarkedForDeletion = !node.MarkedForDeletion
			b.SetNode(node)
		}
	}
}
