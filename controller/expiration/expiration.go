// Package expiration ends NodeClaims that reached spec.expireAfter. Budgets do
// not hold it up, as upstream promises; the drain that follows is the usual one.
//
// The zero Reconciler is not usable; all fields are required.
package expiration

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/metrics"
	"github.com/karve-dev/karve/kube"
)

// Reconciler deletes claims whose time is up.
type Reconciler struct {
	Client  client.Client
	Metrics *metrics.Set
	Log     logr.Logger
	// Class is the kind of node class whose claims are ours.
	Class schema.GroupKind
}

// Reconcile deletes the claim when it is due, else comes back when it is.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	claim := &karpv1.NodeClaim{}
	if err := r.Client.Get(ctx, req.NamespacedName, claim); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	after := claim.Spec.ExpireAfter.Duration
	if claim.DeletionTimestamp != nil || after == nil || !kube.OfKind(claim.Spec.NodeClassRef, r.Class) {
		return reconcile.Result{}, nil
	}
	if left := time.Until(claim.CreationTimestamp.Add(*after)); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	if err := r.Client.Delete(ctx, claim, client.Preconditions{UID: &claim.UID}); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("deleting expired nodeclaim %s: %w", claim.Name, err)
	}
	r.Metrics.Disrupted(claim, "expired")
	r.Log.Info("deleting expired nodeclaim", "nodeclaim", claim.Name, "expire-after", after.String())
	return reconcile.Result{}, nil
}

// Register adds the reconciler to a manager.
func (r *Reconciler) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).
		Named("nodeclaim.expiration").
		For(&karpv1.NodeClaim{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 10}).
		Complete(r)
}
