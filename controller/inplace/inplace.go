// SPDX-License-Identifier: Apache-2.0

// Package inplace changes running instances: when their settings,
// such as tags, are not what their node class specifies any more, the provider changes them, and
// no node is replaced for that.
//
// Changes are not urgent: instances that are not registered wait, and a change that fails is tried
// again minutes later. The provider determines what differs. The zero Reconciler is not
// usable; all fields are required.
package inplace

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/events"
	"github.com/karve-dev/karve/controller/lookup"
	"github.com/karve-dev/karve/controller/metrics"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/provider"
)

// Name is the reconciler's in logs and metrics; Karpenter's provider for Azure calls it so.
const Name = "nodeclaim.inplaceupdate"

// every is how often a claim is reconciled when no event queues it, and how long after a failed
// change of its instance.
const every = 10 * time.Minute

// workers is few: these changes are not urgent.
const workers = 5

// Reconciler keeps instances as their node class specifies.
type Reconciler struct {
	Client  client.Client
	Updater provider.Updater
	Events  *events.Recorder
	Metrics *metrics.Set
	Log     logr.Logger
	// NodeClassGVK is the kind of node class that this installation serves.
	NodeClassGVK schema.GroupVersionKind
}

// Reconcile checks one claim's instance.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	claim := &karpv1.NodeClaim{}
	if err := r.Client.Get(ctx, req.NamespacedName, claim); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if claim.DeletionTimestamp != nil || !kube.OfKind(claim.Spec.NodeClassRef, r.NodeClassGVK.GroupKind()) {
		return reconcile.Result{}, nil
	}
	if !kube.ConditionTrue(claim, karpv1.ConditionTypeRegistered) {
		return reconcile.Result{RequeueAfter: every}, nil
	}
	update, err := r.Updater.Update(ctx, provider.LaunchedNode{
		Claim: claim.Name, ProviderID: claim.Status.ProviderID, Class: kube.ClassOf(claim.Spec.NodeClassRef),
		ImageID: claim.Status.ImageID, Annotations: claim.Annotations,
	})
	if notReady := new(provider.NotReadyError); errors.As(err, &notReady) {
		return reconcile.Result{RequeueAfter: every}, nil // the class reports that itself
	}
	if err != nil {
		r.failed(claim, err)
		return reconcile.Result{RequeueAfter: every}, nil
	}
	if update.Changed != "" {
		r.outcome(claim, "changed")
		r.Log.Info("updated the instance in place", "nodeclaim", claim.Name, "provider-id", claim.Status.ProviderID, "what", update.Changed)
	}
	return reconcile.Result{RequeueAfter: cmp.Or(update.RetryAfter, every)}, nil
}

// failed publishes an event on the claim; the node works all the same.
func (r *Reconciler) failed(claim *karpv1.NodeClaim, err error) {
	r.outcome(claim, "failed")
	r.Log.Error(err, "cannot update the instance in place", "nodeclaim", claim.Name)
	r.Events.Publish(events.Event{About: claim, Warning: true, Reason: "InPlaceUpdateFailed", Key: "update", Every: time.Hour,
		Message: "The instance stays as it is; karve tries again in ten minutes: " + err.Error()})
}

func (r *Reconciler) outcome(claim *karpv1.NodeClaim, outcome string) {
	r.Metrics.ClaimsUpdated.WithLabelValues(claim.Labels[karpv1.NodePoolLabelKey], outcome).Inc()
}

// Register adds the reconciler to a manager. Claims are woken by their node class.
func (r *Reconciler) Register(m manager.Manager) error {
	class := &unstructured.Unstructured{}
	class.SetGroupVersionKind(r.NodeClassGVK)
	ofClass := func(c *karpv1.NodeClaim, class string) bool { return kube.ClassOf(c.Spec.NodeClassRef) == class }
	return builder.ControllerManagedBy(m).
		Named(Name).
		For(&karpv1.NodeClaim{}, builder.WithPredicates(lookup.SpecChanged())).
		Watches(class, lookup.EnqueueClaimsWhere(m.GetClient(), ofClass), builder.WithPredicates(lookup.SpecOrAnnotationsChanged())).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}
