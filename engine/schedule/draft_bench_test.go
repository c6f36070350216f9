// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/schedule"
)

// benchCluster is a cluster of some size on which drafts are timed: Deployments with all the
// usual node constraints, on nodes of a few sizes that are filled to different degrees.
type benchCluster struct {
	*rand.Rand
	b       *cluster.Builder
	types   []offering.InstanceType
	apps    []cluster.Pod
	keys    []string
	minUsed int // percent used of any resource on the nodes that are filled least
}

func newBenchCluster(nodes, pods, apps, least int) *benchCluster {
	t := &benchCluster{Rand: rand.New(rand.NewPCG(1, 2)), b: cluster.NewBuilder(), minUsed: least}
	t.b.SetNamespace("default", nil)
	t.setOfferings()
	for i, name := range []string{"general", "spare", "arm"} {
		p := cluster.NodePool{Name: name, NodeClass: "default", Weight: int32(i % 2)}
		if name == "arm" {
			p.Taints = []cluster.Taint{{Key: "arm", Value: "yes", Effect: cluster.NoSchedule}}
			p.Requirements = cluster.Term{{Key: "kubernetes.io/arch", Operator: constraint.In, Values: []string{"arm64"}}}
		}
		t.b.SetPool(p)
	}
	t.b.SetDaemon(cluster.DaemonSet{PodRef: cluster.PodRef{Name: "logs", UID: "logs"}, Requests: quantity.Amounts{quantity.NameCPU: 100, quantity.NameMemory: 256 << 20, quantity.NamePods: 1}, Tolerations: []cluster.Toleration{{Operator: "Exists"}}})
	for i := range apps {
		t.apps = append(t.apps, t.app(i))
	}
	t.build(nodes, pods)
	return t
}

// setOfferings offers 300 instance types in three zones, as spot and on-demand.
func (t *benchCluster) setOfferings() {
	for family := range 36 {
		gib := int64(2 << (family % 3))
		arch := []string{"amd64", "amd64", "arm64"}[family/3%3]
		for _, cores := range []int64{2, 4, 8, 16, 32, 48, 64, 96} {
			typ := offering.InstanceType{
				Name:     fmt.Sprintf("F%02d-%02d", family, cores),
				Labels:   map[string][]string{"kubernetes.io/arch": {arch}, "kubernetes.io/os": {"linux"}, "family": {fmt.Sprint("F", family)}},
				Capacity: quantity.Amounts{quantity.NameCPU: cores * 1000, quantity.NameMemory: cores * gib << 30, quantity.NamePods: 110, quantity.NameStorage: 128 << 30},
				Overhead: quantity.Amounts{quantity.NameCPU: 100, quantity.NameMemory: 1 << 30},
			}
			for zone := range 3 {
				price := offering.Price(cores*(30+gib*4+int64(family%7)))*1e6 + offering.Price(family*1000+zone)
				typ.Offerings = append(typ.Offerings,
					offering.Offering{Zone: fmt.Sprint("z-", zone+1), CapacityType: offering.OnDemand, Price: price, QuotaUses: []offering.QuotaUse{{Quota: fmt.Sprint("family", family/3), Amount: cores}}},
					offering.Offering{Zone: fmt.Sprint("z-", zone+1), CapacityType: offering.Spot, Price: price / 4, QuotaUses: []offering.QuotaUse{{Quota: "spot", Amount: cores}}})
			}
			t.types = append(t.types, typ)
		}
	}
	quotas := map[string]int64{"spot": 1e6}
	for i := range 12 {
		quotas[fmt.Sprint("family", i)] = 1e5
	}
	t.b.SetCatalog("default", t.types, quotas)
}

func (t *benchCluster) app(i int) cluster.Pod {
	labels := map[string]string{"app": fmt.Sprint("app", i), "tier": fmt.Sprint("tier", i%5)}
	self := cluster.Selector{Namespaces: []string{"default"}, Labels: cluster.Term{{Key: "app", Operator: constraint.In, Values: []string{labels["app"]}}}}
	p := cluster.Pod{Labels: labels, ReschedulableNow: true, Requests: quantity.Amounts{quantity.NameCPU: int64(50 + t.IntN(16)*50), quantity.NameMemory: int64(1+t.IntN(16)) << 27, quantity.NamePods: 1}}
	if i%3 == 0 {
		p.Spreads = append(p.Spreads, cluster.TopologySpreadConstraint{Key: cluster.LabelZone, MaxSkew: 20, Selector: self, Soft: i%2 == 0})
	}
	if i%4 == 0 {
		p.AntiAffinity = append(p.AntiAffinity, cluster.PodAffinityTerm{Key: cluster.LabelHostname, Selector: self})
	}
	if i%10 == 1 {
		p.Required = append(p.Required, constraint.Rule{Key: cluster.LabelCapacityType, Operator: constraint.In, Values: []string{offering.OnDemand}})
	}
	if i%10 == 7 {
		p.Required = append(p.Required, constraint.Rule{Key: cluster.LabelZone, Operator: constraint.In, Values: []string{"z-1", "z-2"}})
	}
	if i%20 == 5 {
		p.Affinity = append(p.Affinity, cluster.PodAffinityTerm{Key: cluster.LabelZone, Selector: self})
	}
	return p
}

// build fills nodes with pods of random applications.
func (t *benchCluster) build(nodes, pods int) {
	n := 0
	for i := range nodes {
		node := t.node(i)
		left := make(quantity.Amounts)
		for name, amount := range node.Allocatable {
			left[name] = amount * int64(t.minUsed+t.IntN(90-t.minUsed)) / 100
		}
		there := map[int]bool{}
		for tries := 0; tries < 60 && n < pods*(i+1)/nodes; tries++ {
			at := t.IntN(len(t.apps))
			if p := t.apps[at]; t.fits(at, &p, &node, left, there) {
				left, there[at] = left.Sub(p.Requests), true
				p.PodRef = cluster.PodRef{Namespace: "default", Name: fmt.Sprintf("app%d-%d", at, n), UID: fmt.Sprint(n)}
				p.Node, p.Created = node.Name, time.Unix(int64(n), 0)
				t.b.SetPod(p)
				n++
			}
		}
	}
}

func (t *benchCluster) node(i int) cluster.Node {
	typ := t.types[t.IntN(len(t.types)/8)*8+2+t.IntN(2)]
	o := typ.Offerings[t.IntN(len(typ.Offerings))]
	name := fmt.Sprint("node", i)
	pool := []string{"general", "general", "spare"}[i%3]
	n := cluster.Node{
		Key: name, Name: name, Pool: pool, HasNodeClaim: true, Initialized: true, Price: o.Price, Capacity: typ.Capacity, Allocatable: typ.Capacity.Sub(typ.Overhead),
		Labels: map[string]string{cluster.LabelHostname: name, cluster.LabelNodePool: pool, cluster.LabelZone: o.Zone, cluster.LabelCapacityType: o.CapacityType, cluster.LabelInstanceType: typ.Name},
	}
	for key, values := range typ.Labels {
		n.Labels[key] = values[0]
	}
	t.b.SetNode(n)
	t.keys = append(t.keys, n.Key)
	return n
}

func (t *benchCluster) fits(at int, p *cluster.Pod, node *cluster.Node, left quantity.Amounts, there map[int]bool) bool {
	if at%4 == 0 && there[at] || at%20 == 5 && node.Labels[cluster.LabelZone] != "z-1" {
		return false
	}
	for _, r := range p.Required {
		ok := false
		for _, v := range r.Values {
			ok = ok || v == node.Labels[r.Key]
		}
		if !ok {
			return false
		}
	}
	for name, amount := range p.Requests {
		if left[name] < amount {
			return false
		}
	}
	return true
}

func benchmarkDraft(b *testing.B, t *benchCluster, full bool, maxPrice func(*cluster.NodeInfo) offering.Price) {
	nodes := len(t.keys)
	snapshot := t.b.Snapshot()
	trial := snapshot.WhatIf()
	defer trial.End()
	if full {
		for _, key := range t.keys {
			trial.StopTakingPods(snapshot.NodeByKey(key))
		}
	}
	placed, over, classes := 0, 0, 0
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		node := snapshot.NodeByKey(t.keys[i*7%nodes])
		i++
		mark := trial.Savepoint()
		trial.RemoveNodes(node)
		d := schedule.NewDraft(trial.Snapshot(), maxPrice(node))
		if d.OverMaxPrice() {
			over++
		} else if d.Unplaced() == 0 {
			placed++
		}
		classes += len(trial.Snapshot().Classes)
		trial.RollbackTo(mark)
	}
	b.ReportMetric(100*float64(placed)/float64(i), "%placed")
	b.ReportMetric(100*float64(over)/float64(i), "%overMaxPrice")
	b.ReportMetric(float64(classes)/float64(i), "classes")
}

// BenchmarkDraft drafts the new places of the pods of every node in turn.
func BenchmarkDraft(b *testing.B) {
	b.Run("no launches", func(b *testing.B) {
		benchmarkDraft(b, newBenchCluster(2000, 40000, 120, 50), false, func(*cluster.NodeInfo) offering.Price { return 0 })
	})
	b.Run("full nodes", func(b *testing.B) {
		benchmarkDraft(b, newBenchCluster(2000, 80000, 120, 88), false, func(*cluster.NodeInfo) offering.Price { return 0 })
	})
	b.Run("launches only", func(b *testing.B) {
		benchmarkDraft(b, newBenchCluster(2000, 40000, 120, 50), true, func(node *cluster.NodeInfo) offering.Price { return 3 * node.Price })
	})
}

// BenchmarkRemoveNode times removing a node in a what-if and rolling back, without a draft.
func BenchmarkRemoveNode(b *testing.B) {
	t := newBenchCluster(2000, 40000, 120, 50)
	snapshot := t.b.Snapshot()
	trial := snapshot.WhatIf()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		mark := trial.Savepoint()
		trial.RemoveNodes(snapshot.NodeByKey(t.keys[i*7%2000]))
		i++
		trial.RollbackTo(mark)
	}
}

// BenchmarkSolve plans for 3,000 more pods.
func BenchmarkSolve(b *testing.B) {
	t := newBenchCluster(2000, 40000, 120, 50)
	for i := range 3000 {
		p := t.apps[i%len(t.apps)]
		p.PodRef = cluster.PodRef{Namespace: "default", Name: fmt.Sprint("new", i), UID: fmt.Sprint("new", i)}
		p.Created = time.Unix(1e6+int64(i), 0)
		t.b.SetPod(p)
	}
	b.ReportAllocs()
	for b.Loop() {
		schedule.Solve(t.b.Snapshot())
	}
}
