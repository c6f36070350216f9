// SPDX-License-Identifier: Apache-2.0

package enginetest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/schedule"
)

// Populated is a RandomFull script after its plan was carried out: most pods run, on nodes of
// every kind, and can move. Some nodes are leaving or unschedulable.
func Populated(seed uint64, pods int) *Script {
	s := RandomFull(seed, pods)
	s = AfterPlan(s, schedule.Solve(s.Snapshot()))
	for i := range s.Pods {
		p := &s.Pods[i]
		if p.Virtual {
			p.Node = "" // it reserves free capacity and is never bound
		}
		if p.Node != "" && p.DaemonSet == "" {
			p.ReschedulableNow = true
		}
	}
	r := &random{Rand: rand.New(rand.NewPCG(seed, 11))}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		n.MarkedForDeletion, n.TakesNoPods = r.chance(8), r.chance(8)
		if r.chance(30) {
			n.Labels = maps.Clone(n.Labels)
			n.Labels["shelf"] = fmt.Sprint(r.IntN(2))
		}
	}
	return s
}

// missingNode is the name of a node that does not exist.
const missingNode = "nowhere"

// WithoutPending is the script as a WhatIf of its snapshot sees it: pods that are pending or on
// leaving nodes are not to be placed. They remain in the script, as selectors may distinguish pods
// by their labels.
func WithoutPending(s *Script) *Script {
	out := *s
	out.Nodes, out.Pods = slices.Clone(s.Nodes), slices.Clone(s.Pods)
	leaving := map[string]bool{"": true}
	for i := range out.Nodes {
		n := &out.Nodes[i]
		leaving[n.Name] = leaving[n.Name] || n.MarkedForDeletion
		n.TakesNoPods = n.TakesNoPods && !n.MarkedForDeletion // see WithNodesRemoved
	}
	for i := range out.Pods {
		if p := &out.Pods[i]; leaving[p.Node] {
			p.Node, p.ReschedulableNow = missingNode, false
		}
	}
	return &out
}

// WithNodesRemoved is a WithoutPending script in which the nodes that are both leaving and
// unschedulable stand for those that a WhatIf removed: they take no pods, their reschedulable pods are
// pending and their other pods count nowhere, yet the nodes' labels still count.
func WithNodesRemoved(s *Script) *Script {
	out := *s
	out.Nodes, out.Pods = slices.Clone(s.Nodes), slices.Clone(s.Pods)
	gone := map[string]bool{}
	for i := range out.Nodes {
		if n := &out.Nodes[i]; n.MarkedForDeletion && n.TakesNoPods {
			n.MarkedForDeletion = false
			gone[n.Name] = n.Name != ""
		}
	}
	for i := range out.Pods {
		switch p := &out.Pods[i]; {
		case gone[p.Node] && p.ReschedulableNow:
			p.Node = ""
		case gone[p.Node]:
			p.Node = missingNode
		}
	}
	return &out
}

// OnNoNode reports whether the pod of a WithoutPending script runs nowhere.
func OnNoNode(p cluster.Pod) bool { return p.Node == missingNode }
