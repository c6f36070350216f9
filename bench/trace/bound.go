// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"

	"github.com/karve-dev/karve/bench/scenario"
	"github.com/karve-dev/karve/bench/upstream"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/schedule/covering"
	"github.com/karve-dev/karve/kube"
)

// bound is the least that nodes for the pods can cost, whoever chooses them: fractions of nodes,
// each at the lowest price of its instance type in any zone, that together hold what the pods
// and their own DaemonSets ask for. It ignores that nodes are whole and pods are not divisible,
// spread over zones and anti-affinity, and what it costs to get from one set of nodes to another.
// It does not share the engine's plans, only package covering, which is tested apart.
type bound struct {
	nodeTypes []covering.NodeType
	demand    quantity.Vector
}

func newBound(s *scenario.Scenario) (*bound, error) {
	daemons := quantity.Amounts{}
	for _, d := range s.DaemonSets {
		daemons = daemons.Add(kube.Requests(&corev1.Pod{Spec: d.Spec.Template.Spec}))
	}
	b := &bound{}
	for _, t := range upstream.Launchable(s.Types, s.Pools[0]) {
		if price := lowest(t.Offerings); price < math.MaxInt64 {
			b.nodeTypes = append(b.nodeTypes, covering.NodeType{Room: vector(t.Capacity.Sub(t.Overhead).Sub(daemons)), Price: price.USD()})
		}
	}
	if len(b.nodeTypes) == 0 {
		return nil, fmt.Errorf("NodePool %s can launch nothing", s.Pools[0].Name)
	}
	return b, nil
}

// lowest is the lowest price of an offering on demand in a zone.
func lowest(all []offering.Offering) offering.Price {
	out := offering.Price(math.MaxInt64)
	for _, o := range all {
		if o.CapacityType == offering.OnDemand && o.Zone != "" && o.Unavailable == "" {
			out = min(out, o.Price)
		}
	}
	return out
}

func vector(a quantity.Amounts) (out quantity.Vector) {
	out[quantity.CPU], out[quantity.Memory], out[quantity.Pods] = a[quantity.NameCPU], a[quantity.NameMemory], a[quantity.NamePods]
	return out
}

func (b *bound) add(p *corev1.Pod) { b.demand = b.demand.Add(vector(kube.Requests(p))) }

func (b *bound) remove(p *corev1.Pod) { b.demand = b.demand.Sub(vector(kube.Requests(p))) }

// price is in USD per hour.
func (b *bound) price() float64 {
	types := make([]covering.NodeType, len(b.nodeTypes))
	for i, t := range b.nodeTypes {
		types[i] = covering.NodeType{Room: covering.Capped(t.Room, &b.demand), Price: t.Price}
	}
	price, _ := covering.Solve(b.demand, 0, types)
	return price
}
