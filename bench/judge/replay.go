// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/schedule"
)

// replay is one plan as objects, with one offering for every launch.
type replay struct {
	script     *enginetest.Script
	plan       schedule.Plan           // each launch with its one offering
	specs      map[string]*cluster.Pod // by UID
	objects    *objects
	nodes      []*corev1.Node
	placed     []placement
	planErrors []Rejection // errors of the plan itself
}

// placement is one planned pod.
type placement struct {
	ref  cluster.PodRef
	spec *cluster.Pod
	pod  *corev1.Pod
	node string
	turn int // how many pods the plan puts on the node before
}

// moves reports whether the pod must leave another node first.
func (p placement) moves() bool { return p.spec.Node != "" }

func newReplay(s *enginetest.Script, p schedule.Plan, to options) *replay {
	h := &replay{script: s, specs: map[string]*cluster.Pod{}, objects: newObjects(s, to.make)}
	for i := range s.Pods {
		h.specs[s.Pods[i].UID] = &s.Pods[i]
	}
	for _, n := range s.Nodes {
		if !n.TakesNoPods || n.Name != "" { // one that never registers does not become a node
			h.nodes = append(h.nodes, h.objects.node(n))
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
	h.nodes = append(h.nodes, node)
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
		case slices.ContainsFunc(h.placed, func(p placement) bool { return p.ref.UID == ref.UID }):
			h.planError(pods[i:i+1], node, "the pod is planned twice")
		default:
			h.placed = append(h.placed, placement{ref: ref, spec: spec, pod: h.objects.pod(*spec), node: node, turn: i})
		}
	}
}

func (h *replay) leaving(node string) bool {
	return slices.ContainsFunc(h.script.Nodes, func(n cluster.Node) bool { return n.MarkedForDeletion && nodeName(n) == node })
}

// stage is a point in time of the replay.
type stage int

const (
	now     stage = iota // nothing has changed yet
	drained              // pods that move have left
	ended                // terminating pods have ended, unschedulable nodes are ready
	gone                 // leaving nodes are removed
	stages
)

// rejections tries orders of pods until one is accepted, and returns the fewest
// rejections that any of them met.
func (h *replay) rejections() []Rejection {
	var best []Rejection
	orders := h.orders()
	for i := 0; i < len(orders); i++ {
		order := orders[i]
		if i == len(orders)-1 && !order.found {
			orders = append(orders, h.found()...)
		}
		for _, start := range []stage{now, drained, gone} {
			s := h.scheduler()
			rejected := h.run(s, order, start)
			s.close()
			if len(rejected) == 0 {
				return h.planErrors
			}
			if i == 0 && start == now || len(rejected) < len(best) {
				best = rejected
			}
		}
	}
	return append(slices.Clone(h.planErrors), best...)
}

// order is a sequence in which pods ask to be scheduled.
type order struct {
	pods []placement
	// restart tries the pods from the first again after each pod that was bound.
	restart bool
	found   bool // see found
}

// found is the order that the engine's own invariants hold the plan by, which they
// search for longer. It is looked for when all others were tried.
func (h *replay) found() []order {
	turn := map[string]int{}
	for i, ref := range enginetest.BindingOrder(h.script, h.plan) {
		turn[ref.UID] = i
	}
	if len(turn) == 0 {
		return nil
	}
	pods := slices.Clone(h.placed)
	slices.SortStableFunc(pods, func(a, b placement) int { return cmp.Compare(turn[a.ref.UID], turn[b.ref.UID]) })
	return []order{{pods: pods, found: true}}
}

// orders are the plan's own order, round robin over the nodes, the pods that block no
// other pod first, and random orders of workloads or of single pods. They are the same
// on every run.
func (h *replay) orders() []order {
	rounds := slices.Clone(h.placed)
	slices.SortStableFunc(rounds, func(a, b placement) int { return cmp.Compare(a.turn, b.turn) })
	blocking := h.blocking()
	byBlocking := func(a, b placement) int { return cmp.Compare(blocking[a.ref.UID], blocking[b.ref.UID]) }
	blockingLast := slices.Clone(h.placed)
	slices.SortStableFunc(blockingLast, byBlocking)
	out := []order{{pods: h.placed}, {pods: rounds}, {pods: blockingLast, restart: true}}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 16 {
		mixed := slices.Clone(blockingLast)
		r.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		if i%4 != 3 {
			mixed = together(mixed)
		}
		out = append(out, order{pods: mixed, restart: true})
	}
	return out
}

// together moves identical pods up to the first of them.
func together(pods []placement) []placement {
	rank, first := make(map[string]int, len(pods)), make(map[string]int)
	for i, p := range pods {
		like := fmt.Sprint(p.spec.Namespace, p.spec.Labels, p.spec.Spreads, p.spec.Affinity, p.spec.AntiAffinity, p.spec.Required, p.spec.AnyOf)
		if _, ok := first[like]; !ok {
			first[like] = i
		}
		rank[p.ref.UID] = first[like]
	}
	slices.SortStableFunc(pods, func(a, b placement) int { return cmp.Compare(rank[a.ref.UID], rank[b.ref.UID]) })
	return pods
}

// blocking counts, for every pod, the spread constraints of others that count it
// although it has no such constraint itself. No rule holds such a pod back, so the pods
// with the constraint must be bound first.
func (h *replay) blocking() map[string]int {
	out := map[string]int{}
	for _, a := range h.placed {
		for _, c := range a.spec.Spreads {
			if c.Soft || c.Selector.Nothing {
				continue
			}
			for _, b := range h.placed {
				if b.spec.Namespace == a.spec.Namespace && matchesSelector(b.spec.Labels, c.Selector.Labels) && !hasSpreadOver(b.spec, c) {
					out[b.ref.UID]++
				}
			}
		}
	}
	return out
}

// matchesSelector reports whether labels meet a selector, which only decides an order here.
func matchesSelector(labels map[string]string, t cluster.Term) bool {
	for _, r := range t {
		v, ok := labels[r.Key]
		if one := ok && (r.Operator == constraint.Exists || slices.Contains(r.Values, v)); one == (r.Operator == constraint.NotIn || r.Operator == constraint.DoesNotExist) {
			return false
		}
	}
	return true
}

func hasSpreadOver(p *cluster.Pod, c cluster.TopologySpreadConstraint) bool {
	return slices.ContainsFunc(p.Spreads, func(x cluster.TopologySpreadConstraint) bool { return x.Key == c.Key && !x.Soft })
}

// run passes through the stages and returns the pods refused until the end. Pods
// begin to be scheduled at stage start, those that move once they have left. Virtual
// pods come last of all: no real pod is affected by them.
func (h *replay) run(s *scheduler, o order, start stage) []Rejection {
	var virtual []placement
	waiting := slices.DeleteFunc(slices.Clone(o.pods), func(p placement) bool { return p.spec.Virtual })
	for _, p := range o.pods {
		if p.spec.Virtual {
			virtual = append(virtual, p)
		}
	}
	for at := range stages {
		switch at {
		case drained:
			h.drain(s)
		case ended:
			h.end(s)
		case gone:
			h.removeLeaving(s)
		}
		if at >= start {
			waiting = s.bindAccepted(waiting, at, o.restart)
		}
		if len(waiting) == 0 {
			virtual = s.bindAccepted(virtual, at, o.restart)
		}
	}
	out := s.rejections(waiting)
	return append(out, s.rejections(s.bindAccepted(virtual, gone, o.restart))...)
}

// drain takes the movable pods off leaving nodes.
func (h *replay) drain(s *scheduler) {
	for _, p := range h.script.Pods {
		if p.Node != "" && p.ReschedulableNow && h.leaving(p.Node) {
			s.remove(p.UID)
		}
	}
}

// end ends the terminating pods: they keep their room, which the engine does not give
// away before it is free, but no selector matches them any more. Unschedulable nodes
// lose the not-ready taint.
func (h *replay) end(s *scheduler) {
	for _, p := range h.script.Pods {
		if s.pods[p.UID] != nil && p.Node != "" && p.Terminating {
			s.remove(p.UID)
			s.bind(h.objects.endedPod(p), p.Node)
		}
	}
	for _, n := range h.script.Nodes {
		if n.TakesNoPods && s.hasNode(nodeName(n)) {
			s.untaint(nodeName(n), corev1.TaintNodeNotReady)
		}
	}
}

// removeLeaving removes the leaving nodes with their remaining pods.
func (h *replay) removeLeaving(s *scheduler) {
	for _, n := range h.script.Nodes {
		if n.MarkedForDeletion && s.hasNode(nodeName(n)) {
			s.removeNode(nodeName(n))
		}
	}
}

// scheduler is a new scheduler over the cluster before any pod is placed.
func (h *replay) scheduler() *scheduler {
	s := newScheduler(h.objects.others())
	for _, n := range h.nodes {
		s.addNode(n)
	}
	running := map[[2]string]bool{} // node and DaemonSet
	for i := range h.script.Pods {
		p := &h.script.Pods[i]
		if p.Node != "" && s.hasNode(p.Node) {
			s.bind(h.objects.pod(*p), p.Node)
			running[[2]string{p.Node, p.DaemonSet}] = true
		}
	}
	for _, n := range h.nodes {
		for _, d := range h.script.Daemons {
			if !h.leaving(n.Name) && !running[[2]string{n.Name, d.UID}] {
				s.startDaemon(h.objects.daemon(d, n.Name), h.objects.portHolder(d, n.Name), n.Name)
			}
		}
	}
	return s
}
