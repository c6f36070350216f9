// SPDX-License-Identifier: Apache-2.0

// Package observe reports the measured resources of nodes to the provider, so that the next
// node of the same type is planned with its real capacity.
//
// It reports only karve's own nodes, and takes the instance type of
// a node only from its NodeClaim. The provider decides which values are plausible. The zero
// Reconciler is not usable; all fields are required.
package observe

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/lookup"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/provider"
)

// Name is the controller's name in logs and metrics.
const Name = "node.observation"

// Reconciler reports nodes to the provider.
type Reconciler struct {
	Client   client.Client
	Observer provider.CapacityObserver
	// NodeClassKind is the kind of node class that this installation serves.
	NodeClassKind schema.GroupKind
}

// Reconcile reports one node, once it is registered.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	node := &corev1.Node{}
	if err := r.Client.Get(ctx, req.NamespacedName, node); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	memory := node.Status.Capacity.Memory().Value()
	if node.Labels[karpv1.NodeRegisteredLabelKey] != "true" || memory <= 0 {
		return reconcile.Result{}, nil
	}
	claims, err := lookup.ClaimsOf(ctx, r.Client, node)
	if err != nil || len(claims) != 1 || !kube.OfKind(claims[0].Spec.NodeClassRef, r.NodeClassKind) {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, r.Observer.ObserveCapacity(ctx, provider.ObservedCapacity{Type: claims[0].Labels[corev1.LabelInstanceTypeStable], Memory: memory})
}

// Register adds the reconciler to a manager. Nodes wake it when they appear, register or
// change their memory; their heartbeats do not.
func (r *Reconciler) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).Named(Name).For(&corev1.Node{}, builder.WithPredicates(telling())).Complete(r)
}

func telling() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, isNode := e.ObjectOld.(*corev1.Node)
			after, too := e.ObjectNew.(*corev1.Node)
			return isNode && too && (lookup.MadeAnew(e) || !before.Status.Capacity.Memory().Equal(*after.Status.Capacity.Memory()) ||
				before.Labels[karpv1.NodeRegisteredLabelKey] != after.Labels[karpv1.NodeRegisteredLabelKey])
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}
