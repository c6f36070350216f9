// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
)

// The benchmarks change a cluster of 5,000 nodes with 20 pods each, of 200 Deployments.
const (
	benchNodes       = 5000
	benchPodsPerNode = 20
	benchDeployments = 200
)

// BenchmarkBuild times a Builder that gets the whole cluster.
func BenchmarkBuild(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		benchCluster().Snapshot()
	}
}

// BenchmarkSetPod binds a pod again and again, each time to another node.
func BenchmarkSetPod(b *testing.B) {
	benchmarkChange(b, func(c *cluster.Builder, i int) {
		c.SetPod(benchPod(i, i%benchNodes))
		if i%1000 == 999 {
			c.Snapshot()
		}
	})
}

// BenchmarkSetNode reports nodes again, with other taints.
func BenchmarkSetNode(b *testing.B) {
	benchmarkChange(b, func(c *cluster.Builder, i int) {
		n := benchNode(i % benchNodes)
		n.Taints = []cluster.Taint{{Key: "round", Value: fmt.Sprint(i), Effect: cluster.PreferNoSchedule}}
		c.SetNode(n)
	})
}

// BenchmarkSnapshot times the Snapshot after a pod that was pending is bound, and another one
// is pending.
func BenchmarkSnapshot(b *testing.B) {
	benchmarkChange(b, func(c *cluster.Builder, i int) {
		c.SetPod(benchPod(i, i%benchNodes))
		c.SetPod(benchPod(i+1, -1))
		c.Snapshot()
	})
}

// BenchmarkSnapshotAfterNode times the Snapshot after a node was replaced.
func BenchmarkSnapshotAfterNode(b *testing.B) {
	benchmarkChange(b, func(c *cluster.Builder, i int) {
		c.RemoveNode(benchNode(i % benchNodes).Key)
		c.Snapshot()
		c.SetNode(benchNode(i % benchNodes))
		c.Snapshot()
	})
}

// benchmarkChange times change number i of the whole cluster, again and again.
func benchmarkChange(b *testing.B, change func(c *cluster.Builder, i int)) {
	c := benchCluster()
	c.Snapshot()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		change(c, i)
		i++
	}
}

func benchCluster() *cluster.Builder {
	b := cluster.NewBuilder()
	b.SetNamespace("default", nil)
	b.SetCatalog("default", []offering.InstanceType{{
		Name: "D8", Capacity: benchNode(0).Capacity,
		Offerings: []offering.Offering{{Zone: "zone-1", CapacityType: offering.OnDemand, Price: 1}},
	}}, nil)
	b.SetPool(cluster.NodePool{Name: "general", NodeClass: "default"})
	b.SetDaemon(cluster.DaemonSet{PodRef: cluster.PodRef{Name: "logs", UID: "logs"}, Requests: quantity.Amounts{quantity.NameCPU: 100}})
	for i := range benchNodes {
		b.SetNode(benchNode(i))
	}
	for i := range benchNodes * benchPodsPerNode {
		b.SetPod(benchPod(i, i%benchNodes))
	}
	return b
}

func benchNode(i int) cluster.Node {
	name := fmt.Sprint("node-", i)
	capacity := quantity.Amounts{quantity.NameCPU: 8000, quantity.NameMemory: 32 << 30, quantity.NamePods: 110}
	return cluster.Node{
		Key: name, Name: name, Pool: "general", Initialized: true, Capacity: capacity, Allocatable: capacity, Price: 1,
		Labels: map[string]string{cluster.LabelHostname: name, cluster.LabelZone: fmt.Sprint("zone-", i%3), cluster.LabelNodePool: "general"},
	}
}

// benchPod is pod i, bound to the node with that number; pending when the number is negative.
func benchPod(i, node int) cluster.Pod {
	app := fmt.Sprint("app-", i%benchDeployments)
	self := cluster.Selector{Namespaces: []string{"default"}, Labels: cluster.Term{{Key: "app", Operator: constraint.In, Values: []string{app}}}}
	p := cluster.Pod{
		PodRef:  cluster.PodRef{Namespace: "default", Name: fmt.Sprint("pod-", i), UID: fmt.Sprint(i % (benchNodes * benchPodsPerNode))},
		Created: time.Unix(int64(i), 0), ReschedulableNow: true, Labels: map[string]string{"app": app},
		Requests: quantity.Amounts{quantity.NameCPU: int64(50 + i%benchDeployments), quantity.NameMemory: 128 << 20, quantity.NamePods: 1},
		Spreads:  []cluster.TopologySpreadConstraint{{Key: cluster.LabelZone, MaxSkew: 1, Selector: self}},
	}
	if node >= 0 {
		p.Node = fmt.Sprint("node-", node)
	}
	return p
}
