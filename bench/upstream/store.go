package upstream

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karve-dev/karve/bench/scenario"
)

// store answers the few reads that upstream's scheduler does. It is faster than
// any cache of client-go: lists are by index and share the objects. Everything
// else of a client panics, as upstream's scheduler has no business with it.
type store struct {
	client.Client
	nodes  map[string]*corev1.Node
	byNode map[string][]corev1.Pod
	pods   []corev1.Pod
}

func newStore(s *scenario.Scenario) *store {
	out := &store{nodes: map[string]*corev1.Node{}, byNode: map[string][]corev1.Pod{}}
	for _, n := range s.Nodes {
		out.nodes[n.Name] = n
	}
	for _, p := range s.Bound {
		out.byNode[p.Spec.NodeName] = append(out.byNode[p.Spec.NodeName], *p)
		out.pods = append(out.pods, *p)
	}
	for _, p := range s.Pending {
		out.pods = append(out.pods, *p)
	}
	return out
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

// List finds pods by node, or by namespace and labels, and the one namespace.
func (s *store) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	o := (&client.ListOptions{}).ApplyOptions(opts)
	switch list := into.(type) {
	case *corev1.PodList:
		list.Items = s.selectPods(o)
	case *corev1.NamespaceList:
		list.Items = []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "default"}}}
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
	for i := range s.pods {
		p := &s.pods[i]
		if (o.Namespace == "" || o.Namespace == p.Namespace) && (o.LabelSelector == nil || o.LabelSelector.Matches(labels.Set(p.Labels))) {
			out = append(out, *p)
		}
	}
	return out
}
