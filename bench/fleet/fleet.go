// SPDX-License-Identifier: Apache-2.0

// Package fleet simulates a cluster that is provisioned and consolidated: nodes are removed,
// others launched, and pods placed and moved, at once and exactly as decided. Both sides of the
// benchmark change their cluster through it, so that one rule counts costs and evictions.
//
// It refuses a change that loses a pod or evicts a protected one. It does not check that
// pods fit: package judge does.
package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/bench/scenario"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/kube"
)

// Fleet is a scenario as one side has changed it. The scenario's own objects stay as
// they are: a pod that moves becomes another object.
type Fleet struct {
	*scenario.Scenario
	Nodes  map[string]*corev1.Node
	Claims map[string]*karpv1.NodeClaim // by name of the node, and named like it
	Pods   map[types.UID]*corev1.Pod    // all that run, DaemonSets' included
	// Waiting are pods that have arrived and were not placed yet.
	Waiting map[types.UID]*corev1.Pod
	// Now is when nodes and pods come and go; zero where time does not matter.
	Now time.Time

	// Evictions counts each eviction, also repeated ones of a pod; Launched counts nodes.
	//
	Evictions, Launched int
	// Moved are the pods that have been evicted at least once.
	Moved map[types.UID]bool

	price  map[string]offering.Price // by node
	sum    offering.Price
	on     map[string]map[types.UID]bool // by node
	pinned map[types.UID]string          // why the pod may not be evicted
	events map[string]time.Time          // when a pod last came or went, by node; see Settle
}

// New is the scenario before any decision.
func New(s *scenario.Scenario) (*Fleet, error) {
	f := &Fleet{
		Scenario: s, Nodes: map[string]*corev1.Node{}, Claims: map[string]*karpv1.NodeClaim{}, Pods: map[types.UID]*corev1.Pod{},
		Waiting: map[types.UID]*corev1.Pod{}, Moved: map[types.UID]bool{}, price: map[string]offering.Price{},
		on: map[string]map[types.UID]bool{}, pinned: map[types.UID]string{}, events: map[string]time.Time{},
	}
	f.pin(s.Bound, s.PDBs)
	for i, n := range s.Nodes {
		if err := f.addNode(n, s.Claims[i]); err != nil {
			return nil, err
		}
	}
	for _, p := range s.Bound {
		f.addPod(p)
	}
	return f, nil
}

func (f *Fleet) addNode(n *corev1.Node, claim *karpv1.NodeClaim) error {
	price, err := f.Scenario.Price(scenario.InstanceOf(n))
	f.Nodes[n.Name], f.Claims[n.Name], f.price[n.Name] = n, claim, price
	f.sum += price
	return err
}

// pin finds the pods that may not be evicted, with the reason.
func (f *Fleet) pin(pods []*corev1.Pod, budgets []*policyv1.PodDisruptionBudget) {
	zero := map[string]labels.Selector{} // by value of the label that every PDB of a scenario selects by
	for _, b := range budgets {
		if b.Status.DisruptionsAllowed == 0 {
			zero[b.Spec.Selector.MatchLabels["app"]], _ = metav1.LabelSelectorAsSelector(b.Spec.Selector)
		}
	}
	for _, p := range pods {
		if by := zero[p.Labels["app"]]; by != nil && by.Matches(labels.Set(p.Labels)) {
			f.pinned[p.UID] = "its PodDisruptionBudget allows no disruption"
		}
		if p.Annotations[karpv1.DoNotDisruptAnnotationKey] != "" {
			f.pinned[p.UID] = "it asks not to be disrupted"
		}
	}
}

func (f *Fleet) addPod(p *corev1.Pod) {
	f.Pods[p.UID] = p
	if f.on[p.Spec.NodeName] == nil {
		f.on[p.Spec.NodeName] = map[types.UID]bool{}
	}
	f.on[p.Spec.NodeName][p.UID] = true
}

// Change is one decision: nodes to remove, nodes to launch, and where the pods of the
// removed nodes go.
type Change struct {
	Gone      []string
	Receivers map[string][]types.UID // by existing node
	Launches  []Launch
}

// Launch is an instance to launch, without a name, and its pods.
type Launch struct {
	scenario.Instance
	Pods []types.UID
}

// Delta is what a change did to objects.
type Delta struct {
	// Gone are removed nodes, GoneClaims their claims in the same order, Ended the
	// DaemonSet pods on them, and pods that ended by themselves.
	Gone       []*corev1.Node
	GoneClaims []*karpv1.NodeClaim
	Ended      []*corev1.Pod
	// Nodes are launched, with their claims in the same order.
	Nodes  []*corev1.Node
	Claims []*karpv1.NodeClaim
	// Started are the DaemonSet pods on Nodes; Moved are the pods that changed nodes; Bound are
	// pods that waited before.
	Started, Moved, Bound []*corev1.Pod

	// Arrived are pods that wait from now on; Ended has those that are gone.
	Arrived []*corev1.Pod
	// PDBs are new, GonePDBs are deleted.
	PDBs, GonePDBs []*policyv1.PodDisruptionBudget
	// Settled are claims, of nodes that stay, whose pod events or condition Consolidatable changed.
	Settled []*karpv1.NodeClaim
}

// Apply makes the change. After an error the fleet is inconsistent and must not be used.
func (f *Fleet) Apply(c Change) (Delta, error) {
	var d Delta
	unplaced := map[types.UID]bool{}
	for _, name := range c.Gone {
		if f.Nodes[name] == nil {
			return d, fmt.Errorf("node %s does not exist or was removed before", name)
		}
		d.Gone, d.GoneClaims = append(d.Gone, f.Nodes[name]), append(d.GoneClaims, f.Claims[name])
		ended, err := f.removeNode(name, unplaced)
		if err != nil {
			return d, err
		}
		d.Ended = append(d.Ended, ended...)
	}
	for _, l := range c.Launches {
		if err := f.launch(l, unplaced, &d); err != nil {
			return d, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Receivers)) {
		if err := f.bind(name, c.Receivers[name], unplaced, &d); err != nil {
			return d, err
		}
	}
	if len(unplaced) > 0 {
		return d, fmt.Errorf("%d pods of removed nodes %v are not placed", len(unplaced), c.Gone)
	}
	return d, nil
}

// removeNode removes a node; its DaemonSet pods end with it.
func (f *Fleet) removeNode(name string, unplaced map[types.UID]bool) ([]*corev1.Pod, error) {
	var ended []*corev1.Pod
	for uid := range f.on[name] {
		p := f.Pods[uid]
		switch {
		case kube.OwnedByDaemonSet(p):
			ended = append(ended, p)
			delete(f.Pods, uid)
		case f.pinned[uid] != "":
			return nil, fmt.Errorf("node %s must not be removed: pod %s: %s", name, p.Name, f.pinned[uid])
		default:
			unplaced[uid] = true
		}
	}
	f.sum -= f.price[name]
	delete(f.on, name)
	delete(f.price, name)
	delete(f.Nodes, name)
	delete(f.Claims, name)
	delete(f.events, name)
	return ended, nil
}

func (f *Fleet) launch(l Launch, unplaced map[types.UID]bool, d *Delta) error {
	f.Launched++
	l.Name = fmt.Sprintf("launched-%05d", f.Launched)
	node, claim, daemons, err := f.Node(l.Instance)
	if err != nil {
		return err
	}
	f.stamp(node, claim)
	if err := f.addNode(node, claim); err != nil {
		return err
	}
	for _, p := range daemons {
		f.addPod(p)
	}
	d.Nodes, d.Claims, d.Started = append(d.Nodes, node), append(d.Claims, claim), append(d.Started, daemons...)
	return f.bind(node.Name, l.Pods, unplaced, d)
}

func (f *Fleet) bind(node string, pods []types.UID, unplaced map[types.UID]bool, d *Delta) error {
	if f.Nodes[node] == nil {
		return fmt.Errorf("pods are placed on node %s, which does not exist", node)
	}
	for _, uid := range pods {
		waiting := f.Waiting[uid]
		switch {
		case waiting != nil:
			d.Bound = append(d.Bound, f.run(waiting, node))
			delete(f.Waiting, uid)
		case unplaced[uid]:
			d.Moved = append(d.Moved, f.run(f.successor(uid), node))
			delete(unplaced, uid)
			f.Moved[uid] = true
			f.Evictions++
		default:
			return fmt.Errorf("pod %s is placed on %s although it was not evicted", uid, node)
		}
		f.events[node] = f.Now
	}
	return nil
}

// run is the pod as it runs on the node from now on.
func (f *Fleet) run(p *corev1.Pod, node string) *corev1.Pod {
	out := *p // a shallow copy: nothing behind its pointers changes
	if p.Spec.NodeName == "" {
		scenario.Run(&out, node, f.Now)
	}
	out.Spec.NodeName = node
	f.addPod(&out)
	return &out
}

// successor is the pod that its controller makes in the place of an evicted one: it is as young as the
// eviction. For the bookkeeping it keeps name and UID.
func (f *Fleet) successor(uid types.UID) *corev1.Pod {
	out := *f.Pods[uid] // a shallow copy, like that of run
	if !f.Now.IsZero() {
		out.CreationTimestamp = metav1.NewTime(f.Now)
		scenario.Run(&out, out.Spec.NodeName, f.Now)
	}
	return &out
}

// Price is the price of all nodes together.
func (f *Fleet) Price() offering.Price { return f.sum }

// Composition lists how many nodes there are of each NodePool, capacity type and
// instance type, most frequent first.
func (f *Fleet) Composition() string {
	count := map[string]int{}
	for _, n := range f.Nodes {
		m := scenario.InstanceOf(n)
		count[m.Pool+" "+m.CapacityType+" "+strings.TrimPrefix(m.Type, "Standard_")]++
	}
	kinds := slices.SortedFunc(maps.Keys(count), func(a, b string) int { return cmp.Or(count[b]-count[a], cmp.Compare(a, b)) })
	var out strings.Builder
	for _, k := range kinds {
		fmt.Fprintf(&out, "%4d %s\n", count[k], k)
	}
	return out.String()
}
