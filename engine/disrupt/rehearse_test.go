// SPDX-License-Identifier: Apache-2.0

package disrupt_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/engine/disrupt/disrupttest"
	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/schedule"
)

// Rule CONSOLIDATION-20: wherever kube-scheduler puts the pods of a move, the cluster is
// cheaper afterwards. The scheduler here is the test's own: it does not read the plan and puts
// pods where most capacity is free.
func TestMovesPayWhereverPodsAreBound(t *testing.T) {
	seeds := uint64(500)
	if testing.Short() {
		seeds = 100
	}
	moves, more := 0, 0
	for seed := range seeds {
		f := randomCluster(seed)
		p := disrupt.Search(f.Builder.Snapshot(), f.ForDisruption(disrupttest.Now(), []disrupt.Pool{{Name: "p"}}, disrupt.Settings{SpotToSpot: true}), disrupt.Cursor{})
		for i, m := range p.Moves {
			before, nodes := f.Price(), f.Launched
			carryOut(t, f, &m, false)
			moves++
			more += f.Launched - nodes - len(m.Launches)
			if after := f.Price(); after >= before {
				t.Errorf("seed %d: move %d, %v -> %d launches for %s, leads from %s to %s", seed, i, m.Nodes, len(m.Launches), m.PriceAfter, before, after)
			}
		}
	}
	if more == 0 {
		t.Error("no further node was launched: the scheduler bound every pod as planned")
	}
	t.Logf("%d moves, %d further launches", moves, more)
}

// Rule CONSOLIDATION-20: it does not matter either which node of a move is drained first.
func TestMovesPayWhicheverNodeIsDrainedFirst(t *testing.T) {
	moves := 0
	for seed := range uint64(1000) {
		f := randomCluster(seed)
		p := disrupt.Search(f.Builder.Snapshot(), f.ForDisruption(disrupttest.Now(), []disrupt.Pool{{Name: "p"}}, disrupt.Settings{SpotToSpot: true}), disrupt.Cursor{})
		if len(p.Moves) == 0 || len(p.Moves[0].Nodes) < 2 { // later moves depend on earlier ones
			continue
		}
		m, before := p.Moves[0], f.Price()
		carryOut(t, f, &m, true)
		moves++
		if after := f.Price(); after >= before {
			t.Errorf("seed %d: %v -> %d launches for %s leads from %s to %s", seed, m.Nodes, len(m.Launches), m.PriceAfter, before, after)
		}
	}
	if moves < 20 {
		t.Errorf("only %d moves of several nodes", moves)
	}
}

// randomCluster is a few nodes with pods of all sizes on them.
func randomCluster(seed uint64) *disrupttest.Cluster {
	r := rand.New(rand.NewPCG(seed, 0x5ca7))
	f := disrupttest.New()
	var types []offering.InstanceType
	for i, cores := range []int64{2, 4, 8, 16} {
		for j, memory := range []int64{2, 4} {
			price := offering.Price((40+8*j)*int(cores)-i-j) * 1e6
			types = append(types, offering.InstanceType{Name: fmt.Sprint("FD"[j:j+1], cores), Offerings: []offering.Offering{{Zone: "1", CapacityType: offering.OnDemand, Price: price}},
				Capacity: amounts(cores*1000, cores*memory<<10, 110)})
		}
	}
	f.SetCatalog(enginetest.NodeClass, types)
	f.SetPool(cluster.NodePool{Name: "p", NodeClass: enginetest.NodeClass})
	for i := range 3 + r.IntN(8) {
		like := &types[r.IntN(len(types))]
		name := fmt.Sprintf("a%02d", i)
		f.SetNode(cluster.Node{Key: name, Name: name, Pool: "p", HasNodeClaim: true, Initialized: true, Capacity: like.Capacity, Allocatable: like.Capacity, Price: like.Offerings[0].Price,
			Labels: map[string]string{cluster.LabelHostname: name, cluster.LabelNodePool: "p", cluster.LabelZone: "1", cluster.LabelCapacityType: offering.OnDemand, cluster.LabelInstanceType: like.Name}})
		left := like.Capacity
		for range r.IntN(12) {
			p := cluster.Pod{ReschedulableNow: true, Node: name, Requests: amounts(100+r.Int64N(3900), 100+r.Int64N(9000), 1)}
			p.UID = fmt.Sprintf("%s-%d", name, len(f.Pods))
			p.Namespace, p.Name = "default", p.UID
			if next := left.Sub(p.Requests); next[quantity.NameCPU] >= 0 && next[quantity.NameMemory] >= 0 {
				left = next
				f.SetPod(p)
			}
		}
	}
	return f
}

func amounts(milli, mib, pods int64) quantity.Amounts {
	return quantity.Amounts{quantity.NameCPU: milli, quantity.NameMemory: mib << 20, quantity.NamePods: pods}
}

// carryOut carries out the move: its launches become nodes, its nodes are removed, and their
// pods are scheduled, the largest first: of all, or of each node.
func carryOut(t *testing.T, f *disrupttest.Cluster, m *disrupt.Move, nodeByNode bool) {
	t.Helper()
	for _, l := range m.Launches {
		if _, err := f.Launch(l); err != nil {
			t.Fatal(err)
		}
	}
	type evicted struct {
		cluster.Pod
		share float64
		order int
	}
	var pods []evicted
	order := 0
	for i, key := range m.Nodes {
		if nodeByNode {
			order = i
		}
		for _, uid := range slices.Sorted(maps.Keys(f.Pods)) {
			if p := f.Pods[uid]; p.Node == key {
				pods = append(pods, evicted{p, share(p.Requests, f.Nodes[key].Allocatable), order})
			}
		}
		f.RemoveNode(key)
	}
	slices.SortStableFunc(pods, func(x, y evicted) int {
		return cmp.Or(cmp.Compare(x.order, y.order), cmp.Compare(y.share, x.share))
	})
	for _, p := range pods {
		p.Node = emptiest(f, p.Requests)
		if p.Node == "" {
			p.Node = launchForRequests(t, f, p.Requests)
		}
		f.SetPod(p.Pod)
	}
}

// share is the share of a node that is requested: cpu and memory together.
func share(asked, of quantity.Amounts) float64 {
	return float64(asked[quantity.NameCPU])/float64(of[quantity.NameCPU]) + float64(asked[quantity.NameMemory])/float64(of[quantity.NameMemory])
}

// emptiest is the node that fits the pod and has most capacity free afterwards; empty when there
// is none.
func emptiest(f *disrupttest.Cluster, asked quantity.Amounts) string {
	best, most := "", -1.0
	for _, key := range slices.Sorted(maps.Keys(f.Nodes)) {
		free := f.Nodes[key].Allocatable
		for _, p := range f.Pods {
			if p.Node == key {
				free = free.Sub(p.Requests)
			}
		}
		free = free.Sub(asked)
		if free[quantity.NameCPU] < 0 || free[quantity.NameMemory] < 0 || free[quantity.NamePods] < 0 {
			continue
		}
		if left := share(free, f.Nodes[key].Allocatable); left > most {
			best, most = key, left
		}
	}
	return best
}

// launchForRequests launches the cheapest node that fits one pod.
func launchForRequests(t *testing.T, f *disrupttest.Cluster, asked quantity.Amounts) string {
	t.Helper()
	var best offering.Ref
	for _, of := range f.Types[enginetest.NodeClass] {
		free := of.Capacity.Sub(asked)
		o := of.Offerings[0]
		if free[quantity.NameCPU] >= 0 && free[quantity.NameMemory] >= 0 && (best.Type == "" || o.Price < best.Price) {
			best = offering.Ref{Type: of.Name, Zone: o.Zone, CapacityType: o.CapacityType, Price: o.Price}
		}
	}
	n, err := f.Launch(schedule.Launch{Pool: "p", Offerings: []offering.Ref{best}, Labels: map[string]string{}})
	if err != nil {
		t.Fatal(err)
	}
	return n.Name
}
