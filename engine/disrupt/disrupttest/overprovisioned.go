// SPDX-License-Identifier: Apache-2.0

package disrupttest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
)

// Overprovisioned is a cluster of so many nodes after its load went down: the nodes were filled
// without regard to prices, and some of their pods are deleted, more of some workloads than of
// others. There are three zones, three families in five sizes, spot and on-demand, a pool for
// any node, one for on-demand only and one with a taint. Workloads spread over zones, have
// anti-affinity between nodes, or require one capacity type. About 20 pods per node remain. The
// same seed always makes the same cluster.
func Overprovisioned(seed uint64, nodes int) *Cluster {
	s := &overprovisioned{Rand: rand.New(rand.NewPCG(seed, 0x59a1)), Cluster: New()}
	s.SetCatalog(enginetest.NodeClass, s.types())
	for _, p := range s.pools() {
		s.SetPool(p)
	}
	s.workloads(40 + nodes/25)
	for i := range nodes {
		s.node(i)
	}
	return s.Cluster
}

// OverprovisionedPools are its pools as disruption knows them: no budgets, no delay.
func OverprovisionedPools() []disrupt.Pool {
	return []disrupt.Pool{{Name: "any", MinAge: -1}, {Name: "batch", MinAge: -1}, {Name: "steady", MinAge: -1}}
}

// Now is the time of every decision in tests.
func Now() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

type overprovisioned struct {
	*rand.Rand
	*Cluster
	work []workload
	made int
}

type workload struct {
	pod       cluster.Pod
	remaining int  // percent of its pods that are not deleted
	apart     bool // its pods have anti-affinity between nodes
	// pool and capacityType are those that it requires; empty for any.
	pool, capacityType string
}

type family struct {
	name   string
	memory int64   // GiB per core
	price  float64 // USD/h per core
}

func families() []family { return []family{{"F", 2, 0.0423}, {"D", 4, 0.048}, {"E", 8, 0.063}} }

func (s *overprovisioned) types() []offering.InstanceType {
	var out []offering.InstanceType
	for _, f := range families() {
		for _, cores := range []int64{2, 4, 8, 16, 32} {
			t := offering.InstanceType{Name: fmt.Sprint(f.name, cores), Labels: map[string][]string{"kubernetes.io/arch": {"amd64"}},
				Capacity: quantity.Amounts{quantity.NameCPU: cores * 1000, quantity.NameMemory: cores * f.memory << 30, quantity.NamePods: 110, quantity.NameStorage: 100 << 30},
				Overhead: quantity.Amounts{quantity.NameCPU: 100 + 10*cores, quantity.NameMemory: (600 + 40*cores) << 20}}
			for z := range 3 {
				od := offering.Price(f.price * float64(cores) * 1e9)
				spot := offering.Price(float64(od) * (0.25 + 0.01*float64((int(cores)+z)%7)))
				zone := fmt.Sprint(z + 1)
				t.Offerings = append(t.Offerings, offering.Offering{Zone: zone, CapacityType: offering.OnDemand, Price: od}, offering.Offering{Zone: zone, CapacityType: offering.Spot, Price: spot})
			}
			out = append(out, t)
		}
	}
	return out
}

func (s *overprovisioned) pools() []cluster.NodePool {
	taint := []cluster.Taint{{Key: "batch", Effect: cluster.NoSchedule}}
	onDemand := cluster.Term{{Key: cluster.LabelCapacityType, Operator: constraint.In, Values: []string{offering.OnDemand}}}
	return []cluster.NodePool{{Name: "any", NodeClass: enginetest.NodeClass}, {Name: "steady", NodeClass: enginetest.NodeClass, Requirements: onDemand}, {Name: "batch", NodeClass: enginetest.NodeClass, Taints: taint}}
}

func (s *overprovisioned) workloads(n int) {
	for i := range n {
		name := fmt.Sprint("w", i)
		cpu := int64(50 << s.IntN(5))
		w := workload{remaining: []int{20, 50, 60, 80, 100}[s.IntN(5)]}
		w.pod = cluster.Pod{Labels: map[string]string{"app": name}, Created: Now().Add(-1000 * time.Hour), ReschedulableNow: true,
			Requests: quantity.Amounts{quantity.NameCPU: cpu, quantity.NameMemory: cpu * int64(1+s.IntN(6)) << 20, quantity.NamePods: 1}}
		w.pod.Namespace, w.pod.Name = "default", name
		own := cluster.Selector{Namespaces: []string{"default"}, Labels: cluster.Term{{Key: "app", Operator: constraint.In, Values: []string{name}}}}
		switch i % 10 {
		case 0, 1:
			w.pod.Spreads = []cluster.TopologySpreadConstraint{{Key: cluster.LabelZone, MaxSkew: 2, Selector: own, Soft: i%20 == 1}}
		case 2:
			w.apart = true
			w.pod.AntiAffinity = []cluster.PodAffinityTerm{{Key: cluster.LabelHostname, Selector: own}}
		case 3:
			w.capacityType = offering.OnDemand
			w.pod.Required = cluster.Term{{Key: cluster.LabelCapacityType, Operator: constraint.In, Values: []string{offering.OnDemand}}}
		case 4:
			w.pool = "steady"
			w.pod.Required = cluster.Term{{Key: cluster.LabelNodePool, Operator: constraint.In, Values: []string{"steady"}}}
		case 5, 6:
			w.pool = "batch"
			w.pod.Tolerations = []cluster.Toleration{{Key: "batch", Operator: "Exists"}}
			w.pod.Required = cluster.Term{{Key: cluster.LabelNodePool, Operator: constraint.In, Values: []string{"batch"}}}
		}
		s.work = append(s.work, w)
	}
}

// node adds a node, fills it with pods that may run there, and deletes some of them.
func (s *overprovisioned) node(i int) {
	pool := []string{"any", "any", "steady", "batch"}[s.IntN(4)]
	f := s.IntN(3)
	name := fmt.Sprintf("node-%05d", i)
	t := s.Types[enginetest.NodeClass][5*f+1+s.IntN(3)]
	o := t.Offerings[2*s.IntN(3)]
	if pool != "steady" && s.IntN(2) == 0 {
		o = t.Offerings[2*(i%3)+1]
	}
	n := cluster.Node{Key: name, Name: name, Pool: pool, HasNodeClaim: true, Initialized: true, Capacity: t.Capacity, Allocatable: t.Capacity.Sub(t.Overhead), Price: o.Price,
		Labels: map[string]string{cluster.LabelHostname: name, cluster.LabelNodePool: pool, cluster.LabelZone: o.Zone, cluster.LabelCapacityType: o.CapacityType, cluster.LabelInstanceType: t.Name, "kubernetes.io/arch": "amd64"}}
	n.Taints = s.Pools[pool].Taints
	s.SetNode(n)
	left, on := n.Allocatable, map[int]bool{}
	for misses := 0; misses < 6; {
		w := s.IntN(len(s.work))
		k := &s.work[w]
		suits := (k.pool == pool || k.pool == "" && pool != "batch") && (k.capacityType == "" || k.capacityType == o.CapacityType) && !(k.apart && on[w])
		if !suits {
			continue
		}
		next := left.Sub(k.pod.Requests)
		if next[quantity.NameCPU] < 0 || next[quantity.NameMemory] < 0 {
			misses++
			continue
		}
		left, on[w] = next, true
		if s.IntN(100) < k.remaining {
			p := k.pod
			s.made++
			p.Name = fmt.Sprintf("%s-%06d", k.pod.Name, s.made)
			p.UID, p.Node = p.Name, name
			s.SetPod(p)
		}
	}
}
