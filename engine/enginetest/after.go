// SPDX-License-Identifier: Apache-2.0

package enginetest

import (
	"fmt"
	"maps"
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/schedule"
)

// AfterPlan is the script after its plan was carried out: launches are nodes of their first
// offerings, pods are bound where the plan put them, leaving nodes are removed. Unplaced pods
// are still pending.
func AfterPlan(s *Script, p schedule.Plan) *Script {
	out := *s
	home := map[string]string{}
	leaving := map[string]bool{}
	out.Nodes = nil
	for _, n := range s.Nodes {
		if n.MarkedForDeletion {
			leaving[n.Name] = true
			continue
		}
		if n.Name == "" {
			n.Name, n.Labels = n.Key, maps.Clone(n.Labels)
			n.Labels[cluster.LabelHostname] = n.Key
		}
		out.Nodes = append(out.Nodes, n)
	}
	for _, n := range p.Nominations {
		for _, ref := range n.Pods {
			home[ref.UID] = n.Node
		}
	}
	for i, l := range p.Launches {
		name := fmt.Sprintf("launched-%03d", i)
		out.Nodes = append(out.Nodes, s.launchedNode(name, l))
		for _, ref := range l.Pods {
			home[ref.UID] = name
		}
	}
	out.Pods = nil
	for _, pod := range s.Pods {
		switch name, moved := home[pod.UID]; {
		case moved:
			pod.Node, pod.Terminating = name, false // its replacement pod
		case pod.Node != "" && leaving[pod.Node]:
			if !pod.ReschedulableNow {
				continue
			}
			pod.Node = ""
		}
		out.Pods = append(out.Pods, pod)
	}
	return &out
}

// launchedNode makes the node that a launch becomes.
func (s *Script) launchedNode(name string, l schedule.Launch) cluster.Node {
	t, o := s.offered(l.Offerings[0])
	pool := s.Pools[slices.IndexFunc(s.Pools, func(p cluster.NodePool) bool { return p.Name == l.Pool })]
	labels := map[string]string{}
	for k, values := range s.labelsOf(*t, *o, pool) {
		for _, v := range values {
			if !slices.ContainsFunc(l.Rules, func(r constraint.Rule) bool { return r.Key == k && !valueSatisfies(r, v) }) {
				labels[k] = v
				break
			}
		}
	}
	maps.Copy(labels, l.Labels)
	maps.Copy(labels, map[string]string{cluster.LabelHostname: name, cluster.LabelInstanceType: t.Name, cluster.LabelZone: o.Zone, cluster.LabelCapacityType: o.CapacityType, cluster.LabelNodePool: pool.Name})
	return cluster.Node{
		Key: name, Name: name, Pool: pool.Name, HasNodeClaim: true, Initialized: true, Labels: labels, Taints: l.Taints,
		Capacity: t.Capacity, Allocatable: t.Capacity.Sub(t.Overhead), QuotaUses: o.QuotaUses, Price: o.Price,
	}
}
