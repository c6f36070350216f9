// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/schedule"
)

// TestPackIsFill: where it is enough to count the pods on a node, as many of each shape are counted as
// fill puts there, whatever was launched before.
func TestPackIsFill(t *testing.T) {
	packed, limited := 0, 0
	for seed := range uint64(300) {
		for _, snapshot := range []*cluster.Snapshot{enginetest.Random(seed, 60).Snapshot(), enginetest.RandomFull(seed, 25).Snapshot(), apps(seed)} {
			result := schedule.ComparePackWithFill(snapshot)
			if result.Difference != "" {
				t.Errorf("seed %d: %s", seed, result.Difference)
			}
			packed, limited = packed+result.Packed, limited+result.Limited
		}
	}
	if packed < 1000 || limited < 1000 {
		t.Errorf("%d nodes packed, %d of them with pods limited per node: want 1000 of each", packed, limited)
	}
}

// apps is a cluster of apps of a few pods each, most of which keep off the nodes of each other or are
// spread over nodes, some over zones too.
func apps(seed uint64) *cluster.Snapshot {
	r := rand.New(rand.NewPCG(seed, 1))
	b := cluster.NewBuilder()
	var types []offering.InstanceType
	for i := range 12 {
		cores, gib := 1+r.Int64N(48), 1+r.Int64N(8)
		it := offering.InstanceType{Name: fmt.Sprint("type", i),
			Capacity: quantity.Amounts{quantity.NameCPU: cores * 1000, quantity.NameMemory: cores * gib << 30, quantity.NamePods: 30 + r.Int64N(100)}}
		for _, zone := range []string{"1", "2", "3"} {
			it.Offerings = append(it.Offerings, offering.Offering{Zone: zone, CapacityType: offering.OnDemand, Price: offering.Price(cores*40_000_000 + cores*gib*20_000_000 + r.Int64N(100_000_000))})
		}
		types = append(types, it)
	}
	b.SetCatalog("class", types, nil)
	b.SetPool(cluster.NodePool{Name: "pool", NodeClass: "class"})
	sizes := 1 + r.Int64N(5)
	for app := range 5 + r.IntN(40) {
		name := fmt.Sprint("app", app)
		own := cluster.Selector{Namespaces: []string{"default"}, Labels: cluster.Term{{Key: "app", Operator: constraint.In, Values: []string{name}}}}
		p := cluster.Pod{Labels: map[string]string{"app": name}, Requests: quantity.Amounts{
			quantity.NameCPU: 250 * (1 + r.Int64N(sizes)), quantity.NameMemory: 256 << 20 * (1 + r.Int64N(sizes)), quantity.NamePods: 1}}
		switch r.IntN(4) {
		case 0, 1:
			p.AntiAffinity = []cluster.PodAffinityTerm{{Key: cluster.LabelHostname, Selector: own}}
		case 2:
			p.Spreads = []cluster.TopologySpreadConstraint{{Key: cluster.LabelHostname, MaxSkew: 1 + r.Int32N(3), Selector: own}}
		}
		if r.IntN(2) == 0 {
			p.Spreads = append(p.Spreads, cluster.TopologySpreadConstraint{Key: cluster.LabelZone, MaxSkew: 1, Selector: own})
		}
		for i := range 1 + r.IntN(12) {
			pod := fmt.Sprint(name, "-", i)
			p.PodRef = cluster.PodRef{Namespace: "default", Name: pod, UID: pod}
			b.SetPod(p)
		}
	}
	return b.Snapshot()
}

// TestPackInNoCell: offerings leave it open whether a node is of one mode or the other. Pods that the spreads
// of both modes count have a cell in which a node would be of both: none is launched there.
func TestPackInNoCell(t *testing.T) {
	b := cluster.NewBuilder()
	it := offering.InstanceType{Name: "D4", Labels: map[string][]string{"mode": {"system", "user"}},
		Capacity: quantity.Amounts{quantity.NameCPU: 4000, quantity.NameMemory: 16 << 30, quantity.NamePods: 30}}
	for _, zone := range []string{"1", "2"} {
		it.Offerings = append(it.Offerings, offering.Offering{Zone: zone, CapacityType: offering.OnDemand, Price: 200_000_000})
	}
	b.SetCatalog("class", []offering.InstanceType{it}, nil)
	b.SetPool(cluster.NodePool{Name: "pool", NodeClass: "class"})
	own := cluster.Selector{Namespaces: []string{"default"}, Labels: cluster.Term{{Key: "app", Operator: constraint.In, Values: []string{"a"}}}}
	pods := 0
	add := func(name string, mode string, priority int32) {
		p := cluster.Pod{PodRef: cluster.PodRef{Namespace: "default", Name: name, UID: name}, Labels: map[string]string{"app": "a"}, Priority: priority,
			Requests: quantity.Amounts{quantity.NameCPU: 1000, quantity.NameMemory: 1 << 30, quantity.NamePods: 1}}
		if mode != "" {
			p.Required = cluster.Term{{Key: "mode", Operator: constraint.In, Values: []string{mode}}}
			p.Spreads = []cluster.TopologySpreadConstraint{{Key: cluster.LabelZone, MaxSkew: 1, Selector: own}}
		}
		b.SetPod(p)
		pods++
	}
	for i := range 4 {
		add(fmt.Sprint("system-", i), "system", 0)
		add(fmt.Sprint("user-", i), "user", 0)
		add(fmt.Sprint("any-", i), "", 1)
	}
	plan := schedule.Solve(b.Snapshot())
	placed := 0
	for _, l := range plan.Launches {
		if len(l.Pods) == 0 {
			t.Error("a node is launched for no pods")
		}
		placed += len(l.Pods)
	}
	if placed != pods || len(plan.Launches) > 6 {
		t.Errorf("%d of %d pods are placed on %d nodes", placed, pods, len(plan.Launches))
	}
}
