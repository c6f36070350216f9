// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/bench/fleet"
	"github.com/karve-dev/karve/bench/scenario"
)

// store answers the few reads that upstream's scheduler and disruption do. It is
// faster than any cache of client-go: lists are by index and share the objects.
// Everything else of a client panics, as deciding has no business with it.
type store struct {
	client.Client
	nodes  map[string]*corev1.Node
	byNode map[string][]corev1.Pod // those that wait by no name
	// pods are all there ever were: those that have ended are zero. byApp and at find
	// them by the label that workloads are told apart by, and by UID.
	pods    []corev1.Pod
	byApp   map[string][]int
	at      map[types.UID]int
	pools   []karpv1.NodePool
	budgets []policyv1.PodDisruptionBudget
	daemons []appsv1.DaemonSet
}

func newStore(s *scenario.Scenario) *store {
	out := &store{nodes: map[string]*corev1.Node{}, byNode: map[string][]corev1.Pod{}, byApp: map[string][]int{}, at: map[types.UID]int{}}
	for _, n := range s.Nodes {
		out.nodes[n.Name] = n
	}
	for _, p := range s.Pools {
		out.pools = append(out.pools, *p)
	}
	for _, b := range s.PDBs {
		out.budgets = append(out.budgets, *b)
	}
	for _, d := range s.DaemonSets {
		out.daemons = append(out.daemons, *d)
	}
	for _, p := range s.Bound {
		out.add(p)
	}
	for _, p := range s.Pending {
		out.add(p)
	}
	return out
}

func (s *store) add(p *corev1.Pod) {
	s.byNode[p.Spec.NodeName] = append(s.byNode[p.Spec.NodeName], *p)
	s.at[p.UID] = len(s.pods)
	s.byApp[p.Labels[appLabel]] = append(s.byApp[p.Labels[appLabel]], len(s.pods))
	s.pods = append(s.pods, *p)
}

const appLabel = "app"

// observe makes a change to the cluster known.
func (s *store) observe(d fleet.Delta) {
	for _, n := range d.Gone {
		delete(s.nodes, n.Name)
		delete(s.byNode, n.Name)
	}
	for _, p := range d.Ended {
		s.leave(p.UID)
		s.pods[s.at[p.UID]] = corev1.Pod{}
		delete(s.at, p.UID)
	}
	for _, n := range d.Nodes {
		s.nodes[n.Name] = n
	}
	for _, p := range slices.Concat(d.Arrived, d.Started) {
		s.add(p)
	}
	for _, p := range slices.Concat(d.Moved, d.Bound) {
		s.leave(p.UID)
		s.pods[s.at[p.UID]] = *p
		s.byNode[p.Spec.NodeName] = append(s.byNode[p.Spec.NodeName], *p)
	}
	for _, b := range d.PDBs {
		s.budgets = append(s.budgets, *b)
	}
	for _, gone := range d.GonePDBs {
		s.budgets = slices.DeleteFunc(s.budgets, func(b policyv1.PodDisruptionBudget) bool { return b.UID == gone.UID })
	}
}

// leave takes the pod off the node that it is on, or off those that wait.
func (s *store) leave(uid types.UID) {
	node := s.pods[s.at[uid]].Spec.NodeName
	if left := slices.DeleteFunc(s.byNode[node], func(p corev1.Pod) bool { return p.UID == uid }); len(left) > 0 {
		s.byNode[node] = left
	} else {
		delete(s.byNode, node)
	}
}

// Get finds nodes; nothing else is there.
func (s *store) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if node, ok := into.(*corev1.Node); ok {
		if found := s.nodes[key.Name]; found != nil {
			*node = *found
			return nil
		}
	}
	return errors.NewNotFound(schema.GroupResource{Resource: fmt.Sprintf("%T", into)}, key.Name)
}

// List finds pods by node, or by namespace and labels, and the one namespace; all there
// are of other kinds.
func (s *store) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	o := (&client.ListOptions{}).ApplyOptions(opts)
	switch list := into.(type) {
	case *corev1.PodList:
		list.Items = s.selectPods(o)
	case *corev1.NamespaceList:
		list.Items = []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "default"}}}
	case *karpv1.NodePoolList:
		list.Items = s.pools
	case *policyv1.PodDisruptionBudgetList:
		list.Items = s.budgets
	case *appsv1.DaemonSetList:
		list.Items = s.daemons
	default:
		return fmt.Errorf("the bench has no list of %T", into)
	}
	return nil
}

func (s *store) selectPods(o *client.ListOptions) []corev1.Pod {
	if o.FieldSelector != nil {
		if node, ok := o.FieldSelector.RequiresExactMatch("spec.nodeName"); ok {
			return s.byNode[node]
		}
	}
	var out []corev1.Pod
	take := func(p *corev1.Pod) {
		if p.UID != "" && (o.Namespace == "" || o.Namespace == p.Namespace) && (o.LabelSelector == nil || o.LabelSelector.Matches(labels.Set(p.Labels))) {
			out = append(out, *p)
		}
	}
	if o.LabelSelector != nil {
		if app, ok := o.LabelSelector.RequiresExactMatch(appLabel); ok {
			for _, i := range s.byApp[app] {
				take(&s.pods[i])
			}
			return out
		}
	}
	for i := range s.pods {
		take(&s.pods[i])
	}
	return out
}
