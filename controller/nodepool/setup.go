// SPDX-License-Identifier: Apache-2.0

package nodepool

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/lookup"
	"github.com/karve-dev/karve/kube"
)

// Register adds the reconciler to a manager. Pools are woken by their node class
// and by their claims.
func (r *Reconciler) Register(m manager.Manager) error {
	class := &unstructured.Unstructured{}
	class.SetGroupVersionKind(r.NodeClassGVK)
	return builder.ControllerManagedBy(m).
		Named("nodepool").
		For(&karpv1.NodePool{}).
		Watches(class, handler.EnqueueRequestsFromMapFunc(r.poolsOfClass)).
		Watches(&karpv1.NodeClaim{}, lookup.EnqueuePoolOfClaim()).
		WithOptions(controller.Options{MaxConcurrentReconciles: 10}).
		Complete(r)
}

func (r *Reconciler) poolsOfClass(ctx context.Context, class client.Object) []reconcile.Request {
	pools := &karpv1.NodePoolList{}
	if err := r.Client.List(ctx, pools); err != nil {
		return nil // only a cache that is stopping fails
	}
	var requests []reconcile.Request
	for i := range pools.Items {
		if kube.ClassOf(pools.Items[i].Spec.Template.Spec.NodeClassRef) == class.GetName() {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&pools.Items[i])})
		}
	}
	return requests
}
