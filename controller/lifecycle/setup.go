// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/lookup"
)

// workers is how many claims are reconciled at once. They mostly wait for the cloud.
const workers = 200

// Register adds the reconciler to a manager. It watches claims and their nodes.
func (r *Reconciler) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).
		Named(Name).
		For(&karpv1.NodeClaim{}).
		Watches(&corev1.Node{}, lookup.EnqueueClaimsOfNode(m.GetClient())).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](200*time.Millisecond, time.Minute),
		}).
		Complete(r)
}
