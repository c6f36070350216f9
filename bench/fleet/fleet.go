// Package fleet is a cluster that shrinks: nodes go, others are bought, and pods move,
// at once and as a decision says. Both sides of the benchmark change theirs through it,
// so that what it costs and whom it disturbs is counted by one rule.
//
// It refuses a change that loses a pod or moves one that asks to be left alone. It does
// not look for room: see the judge.
package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
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

	// Evictions counts the pods that had to move, each time anew; Bought the machines.
	Evictions, Bought int
	// Moved are the pods that are not where they were at first.
	Moved map[types.UID]bool

	price  map[string]offering.Price // by node
	sum    offering.Price
	on     map[string]map[types.UID]bool // by node
	pinned map[types.UID]string          // why the pod may not move
}

// New is the scenario as it is before anybody decides.
func New(s *scenario.Scenario) (*Fleet, error) {
	f := &Fleet{
		Scenario: s, Nodes: map[string]*corev1.Node{}, Claims: map[string]*karpv1.NodeClaim{}, Pods: map[types.UID]*corev1.Pod{},
		Moved: map[types.UID]bool{}, price: map[string]offering.Price{}, on: map[string]map[types.UID]bool{}, pinned: pinned(s),
	}
	for i, n := range s.Nodes {
		if err := f.appear(n, s.Claims[i]); err != nil {
			return nil, err
		}
	}
	for _, p := range s.Bound {
		f.run(p)
	}
	return f, nil
}

func (f *Fleet) appear(n *corev1.Node, claim *karpv1.NodeClaim) error {
	price, err := f.Scenario.Price(scenario.Bought(n))
	f.Nodes[n.Name], f.Claims[n.Name], f.price[n.Name] = n, claim, price
	f.sum += price
	return err
}

// pinned finds who may not be evicted.
func pinned(s *scenario.Scenario) map[types.UID]string {
	out := map[types.UID]string{}
	zero := map[string]labels.Selector{} // by value of the label that every PDB of a scenario selects by
	for _, b := range s.PDBs {
		if b.Status.DisruptionsAllowed == 0 {
			zero[b.Spec.Selector.MatchLabels["app"]], _ = metav1.LabelSelectorAsSelector(b.Spec.Selector)
		}
	}
	for _, p := range s.Bound {
		if by := zero[p.Labels["app"]]; by != nil && by.Matches(labels.Set(p.Labels)) {
			out[p.UID] = "its PodDisruptionBudget allows no disruption"
		}
		if p.Annotations[karpv1.DoNotDisruptAnnotationKey] != "" {
			out[p.UID] = "it asks not to be disrupted"
		}
	}
	return out
}

func (f *Fleet) run(p *corev1.Pod) {
	f.Pods[p.UID] = p
	if f.on[p.Spec.NodeName] == nil {
		f.on[p.Spec.NodeName] = map[types.UID]bool{}
	}
	f.on[p.Spec.NodeName][p.UID] = true
}

// Change is one decision: nodes that go, machines that are bought, and where the pods
// of the former will run.
type Change struct {
	Gone     []string
	Homes    map[string][]types.UID // by node that stays
	Launches []Launch
}

// Launch is a machine to buy, without a name, and the pods for it.
type Launch struct {
	scenario.Machine
	Pods []types.UID
}

// Delta is what a change did to objects.
type Delta struct {
	// Gone are nodes, with their claims in the same order; Ended the DaemonSets' pods on them.
	Gone   []*corev1.Node
	Lapsed []*karpv1.NodeClaim
	Ended  []*corev1.Pod
	// Nodes are new, with their claims in the same order.
	Nodes  []*corev1.Node
	Claims []*karpv1.NodeClaim
	// Started are the DaemonSets' pods on Nodes; Moved run elsewhere now.
	Started, Moved []*corev1.Pod
}

// Apply makes the change, or says why it cannot be made; then the fleet is of no use
// any more.
func (f *Fleet) Apply(c Change) (Delta, error) {
	var d Delta
	homeless := map[types.UID]bool{}
	for _, name := range c.Gone {
		if f.Nodes[name] == nil {
			return d, fmt.Errorf("node %s is gone already", name)
		}
		d.Gone, d.Lapsed = append(d.Gone, f.Nodes[name]), append(d.Lapsed, f.Claims[name])
		ended, err := f.vacate(name, homeless)
		if err != nil {
			return d, err
		}
		d.Ended = append(d.Ended, ended...)
	}
	for _, l := range c.Launches {
		if err := f.buy(l, homeless, &d); err != nil {
			return d, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Homes)) {
		if err := f.settle(name, c.Homes[name], homeless, &d); err != nil {
			return d, err
		}
	}
	if len(homeless) > 0 {
		return d, fmt.Errorf("%d pods of %v have no home", len(homeless), c.Gone)
	}
	return d, nil
}

// vacate takes a node away; its DaemonSets' pods end with it.
func (f *Fleet) vacate(name string, homeless map[types.UID]bool) ([]*corev1.Pod, error) {
	var ended []*corev1.Pod
	for uid := range f.on[name] {
		p := f.Pods[uid]
		switch {
		case kube.OwnedByDaemonSet(p):
			ended = append(ended, p)
			delete(f.Pods, uid)
		case f.pinned[uid] != "":
			return nil, fmt.Errorf("node %s must not go: pod %s: %s", name, p.Name, f.pinned[uid])
		default:
			homeless[uid] = true
		}
	}
	f.sum -= f.price[name]
	delete(f.on, name)
	delete(f.price, name)
	delete(f.Nodes, name)
	delete(f.Claims, name)
	return ended, nil
}

func (f *Fleet) buy(l Launch, homeless map[types.UID]bool, d *Delta) error {
	f.Bought++
	l.Name = fmt.Sprintf("bought-%05d", f.Bought)
	node, claim, daemons, err := f.Node(l.Machine)
	if err != nil {
		return err
	}
	if err := f.appear(node, claim); err != nil {
		return err
	}
	for _, p := range daemons {
		f.run(p)
	}
	d.Nodes, d.Claims, d.Started = append(d.Nodes, node), append(d.Claims, claim), append(d.Started, daemons...)
	return f.settle(node.Name, l.Pods, homeless, d)
}

func (f *Fleet) settle(node string, pods []types.UID, homeless map[types.UID]bool, d *Delta) error {
	if f.Nodes[node] == nil {
		return fmt.Errorf("there is no node %s to move to", node)
	}
	for _, uid := range pods {
		if !homeless[uid] {
			return fmt.Errorf("pod %s needs no home on %s", uid, node)
		}
		delete(homeless, uid)
		moved := *f.Pods[uid] // what is behind its pointers never changes
		moved.Spec.NodeName = node
		f.run(&moved)
		f.Moved[uid] = true
		f.Evictions++
		d.Moved = append(d.Moved, &moved)
	}
	return nil
}

// Price is what all nodes cost.
func (f *Fleet) Price() offering.Price { return f.sum }

// Bill is the price of nodes by how they were bought, for people.
func (f *Fleet) Bill() string {
	count := map[string]int{}
	for _, n := range f.Nodes {
		m := scenario.Bought(n)
		count[m.Pool+" "+m.CapacityType+" "+strings.TrimPrefix(m.Type, "Standard_")]++
	}
	kinds := slices.SortedFunc(maps.Keys(count), func(a, b string) int { return cmp.Or(count[b]-count[a], cmp.Compare(a, b)) })
	var out strings.Builder
	for _, k := range kinds {
		fmt.Fprintf(&out, "%4d %s\n", count[k], k)
	}
	return out.String()
}
