// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/schedule"
)

// replay is one plan for a script as objects, with one offering for every launch.
type replay struct {
	script     *enginetest.Script
	plan       schedule.Plan           // each launch with its one offering
	specs      map[string]*cluster.Pod // by UID
	objects    *objects
	cluster    Cluster
	planErrors []Rejection // errors of the plan itself
}

func newReplay(s *enginetest.Script, p schedule.Plan, to options) *replay {
	h := &replay{script: s, specs: map[string]*cluster.Pod{}, objects: newObjects(s, to.make)}
	for i := range s.Pods {
		h.specs[s.Pods[i].UID] = &s.Pods[i]
	}
	for _, n := range s.Nodes {
		if !n.TakesNoPods || n.Name != "" { // one that never registers does not become a node
			h.cluster.Nodes = append(h.cluster.Nodes, h.objects.node(n))
		}
	}
	for _, n := range p.Nominations {
		h.nominate(n)
	}
	h.plan = p
	h.plan.Launches = nil
	for i, l := range p.Launches {
		if len(l.Offerings) > 0 {
			l.Offerings = []offering.Ref{to.choose(l)}
		}
		h.plan.Launches = append(h.plan.Launches, l)
		h.launch(fmt.Sprintf("launch-%d", i+1), l)
	}
	h.populate()
	h.cluster.Others = h.objects.others()
	h.cluster.LastOrders = h.found
	return h
}

func (h *replay) nominate(n schedule.Nomination) {
	i := slices.IndexFunc(h.script.Nodes, func(x cluster.Node) bool { return x.Key == n.Node })
	if i < 0 {
		h.planError(n.Pods, n.Node, "there is no such node")
		return
	}
	if node := h.script.Nodes[i]; node.MarkedForDeletion || node.TakesNoPods {
		h.planError(n.Pods, n.Node, "the node takes no new pods")
		return
	}
	h.place(n.Pods, nodeName(h.script.Nodes[i]))
}

func (h *replay) launch(name string, l schedule.Launch) {
	if len(l.Offerings) == 0 {
		h.planError(l.Pods, name, "the launch has no offerings")
		return
	}
	node, err := h.objects.launchedNode(name, l, l.Offerings[0])
	if err != nil {
		h.planError(l.Pods, name, err.Error())
		return
	}
	h.cluster.Nodes = append(h.cluster.Nodes, node)
	h.place(l.Pods, name)
}

func (h *replay) planError(pods []cluster.PodRef, node, reason string) {
	for _, ref := range pods {
		h.planErrors = append(h.planErrors, Rejection{Pod: ref, Node: node, Plugin: Plan, Reason: reason})
	}
}

func (h *replay) place(pods []cluster.PodRef, node string) {
	for i, ref := range pods {
		spec := h.specs[ref.UID]
		switch {
		case spec == nil:
			h.planError(pods[i:i+1], node, "there is no such pod")
		case spec.Node != "" && !(spec.ReschedulableNow && h.leaving(spec.Node)):
			h.planError(pods[i:i+1], node, "the pod runs on "+spec.Node+" and stays there")
		case slices.ContainsFunc(h.cluster.Placed, func(p Placement) bool { return string(p.Pod.UID) == ref.UID }):
			h.planError(pods[i:i+1], node, "the pod is planned twice")
		default:
			h.cluster.Placed = append(h.cluster.Placed, Placement{Pod: h.objects.pod(*spec), Node: node, Turn: i, Moves: spec.Node != "", Virtual: spec.Virtual})
		}
	}
}

func (h *replay) leaving(node string) bool {
	return slices.ContainsFunc(h.script.Nodes, func(n cluster.Node) bool { return n.MarkedForDeletion && nodeName(n) == node })
}

// rejections are the plan's own errors and what the scheduler refuses.
func (h *replay) rejections() []Rejection {
	return append(slices.Clone(h.planErrors), h.cluster.Rejections()...)
}

// found is the order that the engine's own invariants hold the plan by, which they
// search for longer. It is looked for when all others were tried.
func (h *replay) found() [][]Placement {
	turn := map[types.UID]int{}
	for i, ref := range enginetest.BindingOrder(h.script, h.plan) {
		turn[types.UID(ref.UID)] = i
	}
	if len(turn) == 0 {
		return nil
	}
	pods := slices.Clone(h.cluster.Placed)
	slices.SortStableFunc(pods, func(a, b Placement) int { return cmp.Compare(turn[a.Pod.UID], turn[b.Pod.UID]) })
	return [][]Placement{pods}
}

// populate adds the bound pods and those that DaemonSets will start, and says which nodes and pods
// leave.
func (h *replay) populate() {
	c := &h.cluster
	c.Leaving, c.Moving, c.Ended = map[string]bool{}, map[types.UID]bool{}, map[types.UID]*corev1.Pod{}
	running := map[[2]string]bool{} // node and DaemonSet
	for i := range h.script.Pods {
		p := &h.script.Pods[i]
		if p.Node == "" {
			continue
		}
		bound := h.objects.pod(*p)
		bound.Spec.NodeName = p.Node
		c.Bound = append(c.Bound, bound)
		c.Moving[bound.UID] = p.ReschedulableNow && h.leaving(p.Node)
		if p.Terminating {
			c.Ended[bound.UID] = h.objects.endedPod(*p)
		}
		running[[2]string{p.Node, p.DaemonSet}] = true
	}
	for _, n := range h.script.Nodes {
		c.Leaving[nodeName(n)] = n.MarkedForDeletion
		if n.TakesNoPods {
			c.Starting = append(c.Starting, nodeName(n))
		}
	}
	for _, n := range c.Nodes {
		for _, d := range h.script.Daemons {
			if !h.leaving(n.Name) && !running[[2]string{n.Name, d.UID}] {
				c.Daemons = append(c.Daemons, Daemon{Pod: h.objects.daemon(d, n.Name), Node: n.Name, PortHolder: h.objects.portHolder(d, n.Name)})
			}
		}
	}
}
