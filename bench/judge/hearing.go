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

// hearing is one plan with every launch bought one way, as objects.
type hearing struct {
	script  *enginetest.Script
	plan    schedule.Plan           // each launch with the choice it was bought as
	specs   map[string]*cluster.Pod // by UID
	objects *objects
	nodes   []*corev1.Node
	placed  []placement
	faults  []Rejection // of the plan itself
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

func newHearing(s *enginetest.Script, p schedule.Plan, to terms) *hearing {
	h := &hearing{script: s, specs: map[string]*cluster.Pod{}, objects: newObjects(s, to.make)}
	for i := range s.Pods {
		h.specs[s.Pods[i].UID] = &s.Pods[i]
	}
	for _, n := range s.Nodes {
		if !n.Unschedulable || n.Name != "" { // what never registers is no node
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

func (h *hearing) nominate(n schedule.Nomination) {
	i := slices.IndexFunc(h.script.Nodes, func(x cluster.Node) bool { return x.Key == n.Node })
	if i < 0 {
		h.fault(n.Pods, n.Node, "there is no such node")
		return
	}
	if node := h.script.Nodes[i]; node.Leaving || node.Unschedulable {
		h.fault(n.Pods, n.Node, "the node takes no new pods")
		return
	}
	h.place(n.Pods, nodeName(h.script.Nodes[i]))
}

func (h *hearing) launch(name string, l schedule.Launch) {
	if len(l.Offerings) == 0 {
		h.fault(l.Pods, name, "the launch has no choices")
		return
	}
	node, err := h.objects.machine(name, l, l.Offerings[0])
	if err != nil {
		h.fault(l.Pods, name, err.Error())
		return
	}
	h.nodes = append(h.nodes, node)
	h.place(l.Pods, name)
}

func (h *hearing) fault(pods []cluster.PodRef, node, reason string) {
	for _, ref := range pods {
		h.faults = append(h.faults, Rejection{Pod: ref, Node: node, Plugin: Plan, Reason: reason})
	}
}

func (h *hearing) place(pods []cluster.PodRef, node string) {
	for i, ref := range pods {
		spec := h.specs[ref.UID]
		switch {
		case spec == nil:
			h.fault(pods[i:i+1], node, "there is no such pod")
		case spec.Node != "" && !(spec.Movable && h.leaving(spec.Node)):
			h.fault(pods[i:i+1], node, "the pod runs on "+spec.Node+" and stays there")
		case slices.ContainsFunc(h.placed, func(p placement) bool { return p.ref.UID == ref.UID }):
			h.fault(pods[i:i+1], node, "the pod is planned twice")
		default:
			h.placed = append(h.placed, placement{ref: ref, spec: spec, pod: h.objects.pod(*spec), node: node, turn: i})
		}
	}
}

func (h *hearing) leaving(node string) bool {
	return slices.ContainsFunc(h.script.Nodes, func(n cluster.Node) bool { return n.Leaving && nodeName(n) == node })
}

// stage is a moment in the course of events.
type stage int

const (
	now     stage = iota // everything is where it is
	drained              // pods that move have left
	ended                // ending pods have ended, stuck nodes have got over it
	gone                 // leaving nodes are no more
	stages
)

// judge tries orders of pods until one is accepted, and returns the fewest
// rejections that any of them met.
func (h *hearing) judge() []Rejection {
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
				return h.faults
			}
			if i == 0 && start == now || len(rejected) < len(best) {
				best = rejected
			}
		}
	}
	return append(slices.Clone(h.faults), best...)
}

// order is a sequence in which pods ask to be scheduled.
type order struct {
	pods []placement
	// patient pods let those before them try again after each that was placed.
	patient bool
	found   bool // see found
}

// found is the order that the engine's own invariants hold the plan by, which they
// search for longer. It is looked for when all others were tried.
func (h *hearing) found() []order {
	turn := map[string]int{}
	for i, ref := range enginetest.Order(h.script, h.plan) {
		turn[ref.UID] = i
	}
	if len(turn) == 0 {
		return nil
	}
	pods := slices.Clone(h.placed)
	slices.SortStableFunc(pods, func(a, b placement) int { return cmp.Compare(turn[a.ref.UID], turn[b.ref.UID]) })
	return []order{{pods: pods, found: true}}
}

// orders are the plan's own, round robin over the nodes, the pods that are in
// nobody's way first, and random ones of whole workloads or of single pods. They are
// the same on every run.
func (h *hearing) orders() []order {
	rounds := slices.Clone(h.placed)
	slices.SortStableFunc(rounds, func(a, b placement) int { return cmp.Compare(a.turn, b.turn) })
	inTheWay := h.inTheWay()
	byPatience := func(a, b placement) int { return cmp.Compare(inTheWay[a.ref.UID], inTheWay[b.ref.UID]) }
	polite := slices.Clone(h.placed)
	slices.SortStableFunc(polite, byPatience)
	out := []order{{pods: h.placed}, {pods: rounds}, {pods: polite, patient: true}}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 16 {
		mixed := slices.Clone(polite)
		r.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		if i%4 != 3 {
			mixed = together(mixed)
		}
		out = append(out, order{pods: mixed, patient: true})
	}
	return out
}

// together moves pods that ask for the same up to the first of them.
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

// inTheWay counts, for every pod, the spread constraints of others that count it
// though it has no such constraint itself. Nothing holds such a pod back, so it
// must let those whose domain it fills go first.
func (h *hearing) inTheWay() map[string]int {
	out := map[string]int{}
	for _, a := range h.placed {
		for _, c := range a.spec.Spreads {
			if c.Soft || c.Select.Nothing {
				continue
			}
			for _, b := range h.placed {
				if b.spec.Namespace == a.spec.Namespace && carries(b.spec.Labels, c.Select.Labels) && !shares(b.spec, c) {
					out[b.ref.UID]++
				}
			}
		}
	}
	return out
}

// carries reports whether labels meet a selector, which only decides an order here.
func carries(labels map[string]string, t cluster.Term) bool {
	for _, r := range t {
		v, ok := labels[r.Key]
		if one := ok && (r.Operator == constraint.Exists || slices.Contains(r.Values, v)); one == (r.Operator == constraint.NotIn || r.Operator == constraint.DoesNotExist) {
			return false
		}
	}
	return true
}

func shares(p *cluster.Pod, c cluster.TopologySpreadConstraint) bool {
	return slices.ContainsFunc(p.Spreads, func(x cluster.TopologySpreadConstraint) bool { return x.Key == c.Key && !x.Soft })
}

// run lives through the stages and returns what was refused to the end. Pods
// begin to be scheduled at stage start, those that move once they have left. Virtual
// pods come last of all: no real pod ever sees them.
func (h *hearing) run(s *scheduler, o order, start stage) []Rejection {
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
			h.retire(s)
		}
		if at >= start {
			waiting = s.settle(waiting, at, o.patient)
		}
		if len(waiting) == 0 {
			virtual = s.settle(virtual, at, o.patient)
		}
	}
	out := s.rejections(waiting)
	return append(out, s.rejections(s.settle(virtual, gone, o.patient))...)
}

// drain takes the movable pods off leaving nodes.
func (h *hearing) drain(s *scheduler) {
	for _, p := range h.script.Pods {
		if p.Node != "" && p.Movable && h.leaving(p.Node) {
			s.remove(p.UID)
		}
	}
}

// end ends the ending pods: they keep their room, which the engine does not give
// away before it is free, but nobody selects them any more. Stuck nodes lose the
// taint that they have while they are not ready.
func (h *hearing) end(s *scheduler) {
	for _, p := range h.script.Pods {
		if s.pods[p.UID] != nil && p.Node != "" && p.Terminating {
			s.remove(p.UID)
			s.bind(h.objects.ghost(p), p.Node)
		}
	}
	for _, n := range h.script.Nodes {
		if n.Unschedulable && s.knows(nodeName(n)) {
			s.untaint(nodeName(n), corev1.TaintNodeNotReady)
		}
	}
}

// retire removes the leaving nodes with all that is left on them.
func (h *hearing) retire(s *scheduler) {
	for _, n := range h.script.Nodes {
		if n.Leaving && s.knows(nodeName(n)) {
			s.removeNode(nodeName(n))
		}
	}
}

// scheduler is a new scheduler over the world before anything is placed.
func (h *hearing) scheduler() *scheduler {
	s := newScheduler(h.objects.others())
	for _, n := range h.nodes {
		s.addNode(n)
	}
	running := map[[2]string]bool{} // node and DaemonSet
	for i := range h.script.Pods {
		p := &h.script.Pods[i]
		if p.Node != "" && s.knows(p.Node) {
			s.bind(h.objects.pod(*p), p.Node)
			running[[2]string{p.Node, p.DaemonSet}] = true
		}
	}
	for _, n := range h.nodes {
		for _, d := range h.script.Daemons {
			if !h.leaving(n.Name) && !running[[2]string{n.Name, d.UID}] {
				s.startDaemon(h.objects.daemon(d, n.Name), h.objects.holder(d, n.Name), n.Name)
			}
		}
	}
	return s
}
