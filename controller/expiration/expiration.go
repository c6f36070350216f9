// SPDX-License-Identifier: Apache-2.0

// Package expiration deletes NodeClaims that reached spec.expireAfter. Budgets do
// not delay it, as Karpenter documents; the drain that follows is the usual one.
//
// It does not delete claims of pools that ask for soft expiry (kube.SoftExpiry): disruption
// replaces those in its own time. The zero Reconciler is not
// usable; fields are required unless their comment says otherwise.
package expiration

import (
	"context"
	"errors"
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

	"github.com/karve-dev/karve/controller/control"
	"github.com/karve-dev/karve/controller/guard"
	"github.com/karve-dev/karve/controller/lookup"
	"github.com/karve-dev/karve/controller/metrics"
	"github.com/karve-dev/karve/kube"
)

// Reconciler deletes expired claims.
type Reconciler struct {
	Client  client.Client
	Metrics *metrics.Set
	Log     logr.Logger
	// NodeClassKind is the kind of node class that this installation serves.
	NodeClassKind schema.GroupKind
	// Pause says whether an operator has paused voluntary disruption; nil when none can.
	Pause *control.Pause
	// Clock is the API server's.
	Clock *kube.ServerClock
	// Guard limits deletions; nil limits none.
	Guard *guard.Guard
}

// pausedRetry is when a claim that is due is looked at again while karve is paused.
const pausedRetry = time.Minute

// Reconcile deletes the claim when it is due, else requeues it until then.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	claim := &karpv1.NodeClaim{}
	if err := r.Client.Get(ctx, req.NamespacedName, claim); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	end, mortal := kube.ExpiresAt(claim)
	if claim.DeletionTimestamp != nil || !mortal || !kube.OfKind(claim.Spec.NodeClassRef, r.NodeClassKind) {
		return reconcile.Result{}, nil
	}
	soft, err := r.softExpiry(ctx, claim)
	if err != nil || soft {
		return reconcile.Result{}, err // the pool wakes us when it changes its mind
	}
	if left := end.Sub(r.Clock.Now()); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	if r.Pause.Why() != "" {
		return reconcile.Result{RequeueAfter: pausedRetry}, nil
	}
	if held := (*guard.Error)(nil); errors.As(r.Guard.Take(1), &held) {
		return reconcile.Result{RequeueAfter: held.RetryAfter}, nil
	}
	if err := r.Client.Delete(ctx, claim, client.Preconditions{UID: &claim.UID}); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("deleting expired nodeclaim %s: %w", claim.Name, err)
	}
	r.Metrics.Disrupted(claim, "expired")
	r.Log.Info("deleting expired nodeclaim", "nodeclaim", claim.Name, "expire-after", claim.Spec.ExpireAfter.Duration.String())
	return reconcile.Result{}, nil
}

// softExpiry reports whether the claim's pool asks for soft expiry. A claim without a pool,
// or whose pool was deleted, expires as usual.
func (r *Reconciler) softExpiry(ctx context.Context, claim *karpv1.NodeClaim) (bool, error) {
	name, pool := claim.Labels[karpv1.NodePoolLabelKey], &karpv1.NodePool{}
	if name == "" {
		return false, nil
	}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, pool); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return kube.SoftExpiry(pool), nil
}

// Register adds the reconciler to a manager. Claims are woken by the annotations of
// their pool.
func (r *Reconciler) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).
		Named("nodeclaim.expiration").
		For(&karpv1.NodeClaim{}).
		Watches(&karpv1.NodePool{}, lookup.EnqueueClaimsOfPool(m.GetClient()), builder.WithPredicates(lookup.AnnotationsChanged())).
		WithOptions(controller.Options{MaxConcurrentReconciles: 10}).
		Complete(r)
}
