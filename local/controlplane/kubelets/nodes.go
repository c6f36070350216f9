// SPDX-License-Identifier: Apache-2.0

package kubelets

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// A node with this annotation is simulated. The registrar of a node sets it; removing it
// simulates a power failure.
const (
	simulatedAnnotation = "kwok.x-k8s.io/node"
	simulatedValue      = "fake"
)

func simulated(node *corev1.Node) bool {
	return node.Annotations[simulatedAnnotation] == simulatedValue
}

// annotatedNodes is a client that sees no node but the simulated ones. A node that
// loses the annotation looks deleted, and one that gets it looks new.
//
// kwok can select by annotation itself, but the API server cannot, so kwok drops the
// event in which the annotation is removed and keeps the node's heartbeats for ever.
type annotatedNodes struct{ kubernetes.Interface }

func (c annotatedNodes) CoreV1() corev1client.CoreV1Interface {
	return annotatedCoreV1{c.Interface.CoreV1()}
}

type annotatedCoreV1 struct{ corev1client.CoreV1Interface }

func (c annotatedCoreV1) Nodes() corev1client.NodeInterface {
	return annotatedNodeClient{c.CoreV1Interface.Nodes()}
}

type annotatedNodeClient struct{ corev1client.NodeInterface }

func (c annotatedNodeClient) List(ctx context.Context, opts metav1.ListOptions) (*corev1.NodeList, error) {
	list, err := c.NodeInterface.List(ctx, opts)
	if err != nil {
		return nil, err
	}
	ours := list.Items[:0]
	for i := range list.Items {
		if simulated(&list.Items[i]) {
			ours = append(ours, list.Items[i])
		}
	}
	list.Items = ours
	return list, nil
}

func (c annotatedNodeClient) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	events, err := c.NodeInterface.Watch(ctx, opts)
	if err != nil {
		return nil, err
	}
	return watch.Filter(events, onlySimulated), nil
}

// onlySimulated translates one event. Deleting an object that never existed is harmless to
// every receiver, so no state is kept.
func onlySimulated(event watch.Event) (watch.Event, bool) {
	node, ok := event.Object.(*corev1.Node)
	if !ok || event.Type == watch.Bookmark || event.Type == watch.Deleted || simulated(node) {
		return event, true
	}
	if event.Type == watch.Added {
		return event, false
	}
	return watch.Event{Type: watch.Deleted, Object: node}, true
}
