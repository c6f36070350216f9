// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/karve-dev/karve/engine/cluster"
)

// Cluster is a cluster as Kubernetes objects, and where a plan puts pods.
type Cluster struct {
	// Nodes are those that exist or are in flight, and those that the plan launches.
	Nodes []*corev1.Node
	// Others are the objects that nodes and pods only refer to: namespaces, volumes, claims,
	// StorageClasses and CSINodes.
	Others []runtime.Object
	// Bound pods run on the nodes that they name.
	Bound []*corev1.Pod
	// Daemons are the pods that DaemonSets will start.
	Daemons []Daemon
	// Placed are the planned pods, each node's together.
	Placed []Placement

	// Leaving are the names of the nodes that will be removed, with the pods that are left there.
	Leaving map[string]bool
	// Moving are the bound pods that leave their nodes before.
	Moving map[types.UID]bool
	// Ended are what terminating pods leave on their nodes once they have ended, by UID.
	Ended map[types.UID]*corev1.Pod
	// Starting are the names of the nodes that lose the not-ready taint.
	Starting []string

	// LastOrders are orders to try when all others were refused; may be nil.
	LastOrders func() [][]Placement
}

// Placement is one planned pod.
type Placement struct {
	Pod  *corev1.Pod // not bound to any node
	Node string
	Turn int // how many pods the plan puts on the node before
	// Moves is set when the pod must leave another node first.
	Moves bool
	// Virtual pods are not real: they come last, and real pods are not affected by them.
	Virtual bool
}

func (p Placement) ref() cluster.PodRef {
	return cluster.PodRef{Namespace: p.Pod.Namespace, Name: p.Pod.Name, UID: string(p.Pod.UID)}
}

// Daemon is a DaemonSet's pod that has not started on a node yet.
type Daemon struct {
	Pod  *corev1.Pod
	Node string
	// PortHolder is a pod that takes the daemon's host ports and nothing else; nil when it has none.
	PortHolder *corev1.Pod
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

// Rejections tries orders of pods until one is accepted, and returns the fewest
// rejections that any of them met.
func (c *Cluster) Rejections() []Rejection {
	out, s := c.Replay()
	s.Close()
	return out
}

// Replay is Rejections. It also returns the scheduler over the cluster with the accepted pods of the
// last order that it tried; the caller closes it.
func (c *Cluster) Replay() ([]Rejection, *Scheduler) {
	var best []Rejection
	var last *Scheduler
	orders := c.orders()
	for i := 0; i < len(orders); i++ {
		order := orders[i]
		if i == len(orders)-1 && !order.last && c.LastOrders != nil {
			for i, pods := range c.LastOrders() {
				orders = append(orders, sequence{pods: pods, restart: i%2 == 1, last: true})
			}
		}
		for _, start := range []stage{now, drained, gone} {
			if last != nil {
				last.Close()
			}
			last = c.scheduler()
			rejected := c.run(last, order, start)
			if len(rejected) == 0 {
				return nil, last
			}
			if i == 0 && start == now || len(rejected) < len(best) {
				best = rejected
			}
		}
	}
	return best, last
}

// sequence is an order in which pods ask to be scheduled.
type sequence struct {
	pods []Placement
	// restart tries the pods from the first again after each pod that was bound.
	restart bool
	last    bool // one of LastOrders
}

// orders are the plan's own order, round robin over the nodes, the pods that block the fewest
// others first, random orders of workloads or of single pods, half of them by priority as the
// scheduler's queue is, the pods at which chains of blocked pods begin first, and random orders of
// those that block as many others. They are the same on every run.
func (c *Cluster) orders() []sequence {
	sorted := func(rank func(Placement) int) []Placement {
		out := slices.Clone(c.Placed)
		slices.SortStableFunc(out, func(a, b Placement) int { return cmp.Compare(rank(a), rank(b)) })
		return out
	}
	blocking, chain := c.blocking()
	blockingLast := sorted(func(p Placement) int { return blocking[p.Pod.UID] })
	out := []sequence{{pods: c.Placed}, {pods: sorted(func(p Placement) int { return p.Turn })}, {pods: blockingLast, restart: true}}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 32 {
		mixed := slices.Clone(blockingLast)
		r.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		if i%4 != 3 {
			mixed = together(mixed)
		}
		if i%2 == 1 {
			slices.SortStableFunc(mixed, func(a, b Placement) int {
				return cmp.Compare(ptr.Deref(b.Pod.Spec.Priority, 0), ptr.Deref(a.Pod.Spec.Priority, 0))
			})
		}
		out = append(out, sequence{pods: mixed, restart: true})
	}
	out = append(out, sequence{pods: sorted(func(p Placement) int { return chain[p.Pod.UID] }), restart: true})
	for i := range 32 {
		mixed := slices.Clone(c.Placed)
		r.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		mixed = together(mixed)
		rank := func(p Placement) int {
			if i%2 == 1 && joins(p.Pod) {
				return 0 // it may have to be the first of its kind
			}
			return blocking[p.Pod.UID]
		}
		slices.SortStableFunc(mixed, func(a, b Placement) int { return cmp.Compare(rank(a), rank(b)) })
		out = append(out, sequence{pods: mixed, restart: true})
	}
	return out
}

// joins reports whether the pod requires pod affinity.
func joins(p *corev1.Pod) bool {
	a := p.Spec.Affinity
	return a != nil && a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0
}

// together moves identical pods up to the first of them.
func together(pods []Placement) []Placement {
	rank, first := make(map[types.UID]int, len(pods)), make(map[string]int)
	for i, p := range pods {
		spec := p.Pod.Spec
		like := fmt.Sprint(p.Pod.Namespace, p.Pod.Labels, spec.TopologySpreadConstraints, spec.Affinity.String(), spec.NodeSelector)
		if _, ok := first[like]; !ok {
			first[like] = i
		}
		rank[p.Pod.UID] = first[like]
	}
	slices.SortStableFunc(pods, func(a, b Placement) int { return cmp.Compare(rank[a.Pod.UID], rank[b.Pod.UID]) })
	return pods
}

// blocking counts, for every pod, the spread constraints of others in its topology domain that count it
// although no such constraint of its own does. No rule holds such a pod back, so the pods with the
// constraint must be bound first; in another domain it only makes room for them. chain is the length of
// the longest chain of such pods that leads to the pod.
func (c *Cluster) blocking() (blocking, chain map[types.UID]int) {
	blocking, chain = map[types.UID]int{}, map[types.UID]int{}
	nodes := map[string]*corev1.Node{}
	for _, n := range c.Nodes {
		nodes[n.Name] = n
	}
	inOneDomain := func(a, b Placement, key string) bool {
		x, y := nodes[a.Node], nodes[b.Node]
		return x == nil || y == nil || x.Labels[key] == y.Labels[key]
	}
	blocks := make([][]types.UID, len(c.Placed)) // the pods to be bound after each
	for i, a := range c.Placed {
		for _, s := range a.Pod.Spec.TopologySpreadConstraints {
			for _, b := range c.Placed {
				if inOneDomain(a, b, s.TopologyKey) && counts(a.Pod, s, b.Pod) && !holdsItselfBack(b.Pod, s.TopologyKey) {
					blocking[b.Pod.UID]++
					blocks[i] = append(blocks[i], b.Pod.UID)
				}
			}
		}
	}
	for range maxChain {
		for i, a := range c.Placed {
			for _, b := range blocks[i] {
				chain[b] = max(chain[b], chain[a.Pod.UID]+1)
			}
		}
	}
	return blocking, chain
}

// maxChain bounds the chains that blocking follows.
const maxChain = 8

// counts reports whether a hard spread constraint of pod a counts pod b. One whose selector is empty counts
// no pod (podtopologyspread, countPodsMatchSelector).
func counts(a *corev1.Pod, s corev1.TopologySpreadConstraint, b *corev1.Pod) bool {
	if s.WhenUnsatisfiable != corev1.DoNotSchedule || s.LabelSelector == nil || a.Namespace != b.Namespace {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(s.LabelSelector)
	return err == nil && !selector.Empty() && selector.Matches(labels.Set(b.Labels))
}

// holdsItselfBack reports whether a hard spread constraint of the pod over the key counts the pod.
func holdsItselfBack(p *corev1.Pod, key string) bool {
	return slices.ContainsFunc(p.Spec.TopologySpreadConstraints, func(s corev1.TopologySpreadConstraint) bool {
		return s.TopologyKey == key && counts(p, s, p)
	})
}

// run passes through the stages and returns the pods refused until the end. Pods
// begin to be scheduled at stage start, those that move once they have left. Virtual
// pods come last of all: no real pod is affected by them.
func (c *Cluster) run(s *Scheduler, o sequence, start stage) []Rejection {
	var virtual []Placement
	waiting := slices.DeleteFunc(slices.Clone(o.pods), func(p Placement) bool { return p.Virtual })
	for _, p := range o.pods {
		if p.Virtual {
			virtual = append(virtual, p)
		}
	}
	for at := range stages {
		switch at {
		case drained:
			c.drain(s)
		case ended:
			c.end(s)
		case gone:
			c.removeLeaving(s)
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

// drain takes the moving pods off their nodes.
func (c *Cluster) drain(s *Scheduler) {
	for _, p := range c.Bound {
		if c.Moving[p.UID] && s.boundTo(p.UID) == p.Spec.NodeName {
			s.remove(p.UID)
		}
	}
}

// end ends the terminating pods: they keep their room, which the engine does not give
// away before it is free, but no selector matches them any more. Unschedulable nodes
// lose the not-ready taint.
func (c *Cluster) end(s *Scheduler) {
	for _, p := range c.Bound {
		if left := c.Ended[p.UID]; left != nil && s.boundTo(p.UID) == p.Spec.NodeName {
			s.remove(p.UID)
			s.bind(left, p.Spec.NodeName)
		}
	}
	for _, n := range c.Starting {
		if s.hasNode(n) {
			s.untaint(n, corev1.TaintNodeNotReady)
		}
	}
}

// removeLeaving removes the leaving nodes with their remaining pods.
func (c *Cluster) removeLeaving(s *Scheduler) {
	for _, n := range c.Nodes {
		if c.Leaving[n.Name] && s.hasNode(n.Name) {
			s.RemoveNode(n.Name)
		}
	}
}

// scheduler is a new scheduler over the cluster before any pod is placed.
func (c *Cluster) scheduler() *Scheduler {
	s := newScheduler(c.Others)
	for _, n := range c.Nodes {
		s.AddNode(n)
	}
	for _, p := range c.Bound {
		if s.hasNode(p.Spec.NodeName) {
			s.bind(p, p.Spec.NodeName)
		}
	}
	for _, d := range c.Daemons {
		s.Start(d)
	}
	return s
}

// AfterPlan is the scheduler over the cluster in which every planned pod runs where the plan puts
// it and the moving pods have left. Unless settled is set, terminating pods and leaving nodes are still
// there. The caller closes it.
func (c *Cluster) AfterPlan(settled bool) *Scheduler {
	s := c.scheduler()
	c.drain(s)
	if settled {
		c.end(s)
		c.removeLeaving(s)
	}
	for _, p := range c.Placed {
		if s.hasNode(p.Node) {
			s.bind(p.Pod, p.Node)
		}
	}
	return s
}
