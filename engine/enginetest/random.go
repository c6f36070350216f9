// SPDX-License-Identifier: Apache-2.0

package enginetest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/reason"
)

// Random makes a script from a seed: a few pools with labels, taints, weights and limits, types
// in zones, nodes with pods on them, and pods with all kinds of requirements, some impossible.
// The same seed always makes the same script.
func Random(seed uint64, pods int) *Script {
	r := &random{Rand: rand.New(rand.NewPCG(seed, seed^0x9e3779b97f4a7c15)), s: &Script{Quotas: map[string]int64{}}}
	r.types(1 + r.IntN(8))
	r.pools(1 + r.IntN(4))
	r.daemons(r.IntN(4))
	r.nodes(r.IntN(6))
	for len(r.s.Pods) < pods {
		r.workload(min(1+r.IntN(1+pods/3), pods-len(r.s.Pods)))
	}
	r.age()
	return r.s
}

type random struct {
	*rand.Rand
	s *Script
}

// age makes every pod a second younger than the one before, as scripts do.
func (r *random) age() {
	for i := range r.s.Pods {
		r.s.Pods[i].Created = time.Unix(int64(i), 0)
	}
}

func (r *random) oneOf(values ...string) string { return values[r.IntN(len(values))] }

func (r *random) chance(percent int) bool { return r.IntN(100) < percent }

func (r *random) types(n int) {
	for i := range n {
		cpu := int64(1+r.IntN(4)) << r.IntN(4)
		t := offering.InstanceType{
			Name:     fmt.Sprintf("T%d", i),
			Labels:   map[string][]string{"arch": {r.oneOf("amd64", "arm64")}, "version": {fmt.Sprint(1 + r.IntN(6))}},
			Capacity: quantity.Amounts{quantity.NameCPU: cpu * 1000, quantity.NameMemory: cpu << 30 * int64(1+r.IntN(8)), quantity.NamePods: int64(10 + r.IntN(100)), quantity.NameStorage: 100 << 30},
			Overhead: quantity.Amounts{quantity.NameCPU: int64(r.IntN(200)), quantity.NameMemory: int64(r.IntN(1 << 30))},
		}
		if r.chance(20) {
			t.Capacity["nvidia.com/gpu"] = int64(1 + r.IntN(4))
			t.Labels["gpu"] = []string{"yes"}
		}
		if r.chance(30) {
			t.Labels["disk"] = []string{"fast", "slow"}
		}
		for z := range 1 + r.IntN(3) {
			for _, ct := range []string{offering.OnDemand, offering.Spot} {
				if r.chance(20) {
					continue
				}
				o := offering.Offering{Zone: fmt.Sprint(z + 1), CapacityType: ct, Price: offering.Price(cpu * int64(20+r.IntN(40)) * 1e6)}
				if r.chance(10) {
					o.Unavailable = "out of stock"
				}
				if r.chance(50) {
					o.QuotaUses = []offering.QuotaUse{{Quota: "family" + t.Labels["version"][0], Amount: cpu}}
				}
				t.Offerings = append(t.Offerings, o)
			}
		}
		r.s.Types = append(r.s.Types, t)
	}
	for i := range 6 {
		if r.chance(30) {
			r.s.Quotas[fmt.Sprint("family", i+1)] = int64(r.IntN(60))
		}
	}
}

func (r *random) rule() constraint.Rule {
	switch r.IntN(7) {
	case 0:
		return constraint.Rule{Key: "arch", Operator: constraint.In, Values: []string{r.oneOf("amd64", "arm64")}}
	case 1:
		op := []constraint.Operator{constraint.Gt, constraint.Lt, constraint.Gte, constraint.Lte}[r.IntN(4)]
		return constraint.Rule{Key: "version", Operator: op, Values: []string{fmt.Sprint(r.IntN(7))}}
	case 2:
		op := []constraint.Operator{constraint.In, constraint.NotIn}[r.IntN(2)]
		return constraint.Rule{Key: cluster.LabelZone, Operator: op, Values: []string{r.oneOf("1", "2"), r.oneOf("2", "3")}}
	case 3:
		return constraint.Rule{Key: cluster.LabelCapacityType, Operator: constraint.In, Values: []string{r.oneOf(offering.OnDemand, offering.Spot)}}
	case 4:
		op := []constraint.Operator{constraint.Exists, constraint.DoesNotExist}[r.IntN(2)]
		return constraint.Rule{Key: r.oneOf("gpu", "team", "disk"), Operator: op}
	case 5:
		op := []constraint.Operator{constraint.In, constraint.NotIn}[r.IntN(2)]
		return constraint.Rule{Key: "disk", Operator: op, Values: []string{r.oneOf("fast", "slow")}}
	}
	op := []constraint.Operator{constraint.In, constraint.NotIn}[r.IntN(2)]
	return constraint.Rule{Key: "team", Operator: op, Values: []string{r.oneOf("red", "blue", "green")}}
}

func (r *random) taint() cluster.Taint {
	return cluster.Taint{Key: r.oneOf("dedicated", "gpu"), Value: r.oneOf("", "x"), Effect: []cluster.Effect{cluster.NoSchedule, cluster.PreferNoSchedule, cluster.NoExecute}[r.IntN(3)]}
}

func (r *random) toleration() cluster.Toleration {
	t := cluster.Toleration{Key: r.oneOf("dedicated", "gpu", ""), Operator: "Exists"}
	if t.Key != "" && r.chance(50) {
		t.Operator, t.Value = "Equal", r.oneOf("", "x")
	}
	if r.chance(50) {
		t.Effect = cluster.NoSchedule
	}
	return t
}

func (r *random) pools(n int) {
	for i := range n {
		p := cluster.NodePool{Name: fmt.Sprintf("pool%d", i), NodeClass: NodeClass, Weight: int32(r.IntN(3) * 10), Labels: map[string]string{}}
		for r.chance(40) {
			p.Requirements = append(p.Requirements, r.rule())
		}
		if r.chance(30) {
			p.Labels["team"] = r.oneOf("red", "blue")
		}
		if r.chance(30) {
			p.Requirements = append(p.Requirements, constraint.Rule{Key: "team", Operator: constraint.In, Values: []string{"red", "blue"}})
		}
		if r.chance(25) {
			p.Taints = append(p.Taints, r.taint())
		}
		if r.chance(40) {
			p.Limits = quantity.Amounts{quantity.NameCPU: int64(r.IntN(64)) * 1000}
			if r.chance(50) {
				p.Limits[quantity.NameNodes] = int64(r.IntN(6))
			}
		}
		r.s.Pools = append(r.s.Pools, p)
	}
}

func (r *random) daemons(n int) {
	for i := range n {
		name := fmt.Sprintf("ds%d", i)
		d := cluster.DaemonSet{PodRef: cluster.PodRef{Name: name, UID: name}, Requests: quantity.Amounts{quantity.NameCPU: int64(r.IntN(300)), quantity.NamePods: 1}}
		if r.chance(40) {
			d.Required = cluster.Term{r.rule()}
		}
		if r.chance(50) {
			d.Tolerations = append(d.Tolerations, cluster.Toleration{Operator: "Exists"})
		}
		r.s.Daemons = append(r.s.Daemons, d)
	}
}

func (r *random) nodes(n int) {
	for i := range n {
		name := fmt.Sprintf("node%d", i)
		pool := r.s.Pools[r.IntN(len(r.s.Pools))]
		node := cluster.Node{
			Key: name, Name: name, Pool: pool.Name, HasNodeClaim: true, Initialized: r.chance(70), MarkedForDeletion: r.chance(20),
			Labels:      map[string]string{cluster.LabelHostname: name, cluster.LabelNodePool: pool.Name, cluster.LabelZone: r.oneOf("1", "2", "3"), "arch": "amd64", cluster.LabelCapacityType: r.oneOf(offering.OnDemand, offering.Spot)},
			Taints:      pool.Taints,
			Allocatable: quantity.Amounts{quantity.NameCPU: int64(1+r.IntN(16)) * 1000, quantity.NameMemory: int64(4+r.IntN(60)) << 30, quantity.NamePods: 30},
		}
		node.Capacity = node.Allocatable
		r.s.Nodes = append(r.s.Nodes, node)
		for j := range r.IntN(4) {
			ref := fmt.Sprintf("bound-%d-%d", i, j)
			pod := cluster.Pod{PodRef: cluster.PodRef{Namespace: "default", Name: ref, UID: ref}, Node: name, ReschedulableNow: r.chance(80), Requests: quantity.Amounts{quantity.NameCPU: int64(r.IntN(500)), quantity.NameMemory: int64(r.IntN(1 << 30)), quantity.NamePods: 1}}
			if len(r.s.Daemons) > 0 && r.chance(30) {
				pod.DaemonSet, pod.ReschedulableNow = r.s.Daemons[r.IntN(len(r.s.Daemons))].UID, false
			}
			r.s.Pods = append(r.s.Pods, pod)
		}
	}
}

func (r *random) workload(n int) {
	p := cluster.Pod{Priority: int32(r.IntN(2) * 10), Requests: quantity.Amounts{quantity.NameCPU: int64(50 + r.IntN(3000)), quantity.NameMemory: int64(1+r.IntN(64)) << 27, quantity.NamePods: 1}}
	for r.chance(35) {
		p.Required = append(p.Required, r.rule())
	}
	for r.chance(25) {
		p.AnyOf = append(p.AnyOf, cluster.Term{r.rule()})
	}
	for r.chance(30) {
		p.Tolerations = append(p.Tolerations, r.toleration())
	}
	if r.chance(10) {
		p.Requests["nvidia.com/gpu"] = 1
	}
	if r.chance(3) {
		p.Requests[quantity.NameMemory] = 1e18
	}
	if r.chance(3) {
		p.Refused, p.RefusedDetail = reason.Volumes, "its claim is lost"
	}
	first := len(r.s.Pods)
	for i := range n {
		pod := p
		name := fmt.Sprintf("w%d-%d", first, i)
		pod.PodRef = cluster.PodRef{Namespace: "default", Name: name, UID: name}
		r.s.Pods = append(r.s.Pods, pod)
	}
}
