// SPDX-License-Identifier: Apache-2.0

package termination

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const workers = 100

// Register adds the reconciler to a manager.
func (r *NodeReconciler) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).
		Named("node.termination").
		For(&corev1.Node{}).
		WithOptions(options()).
		Complete(r)
}

func options() controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: workers,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](200*time.Millisecond, time.Minute),
	}
}
