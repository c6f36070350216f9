// SPDX-License-Identifier: Apache-2.0

package nodeclass

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/controller/events"
	"github.com/karve-dev/karve/controller/lookup"
	"github.com/karve-dev/karve/internal/panics"
	"github.com/karve-dev/karve/provider/azure"
)

// Register adds the reconciler to a manager. Classes are woken by changes of
// their spec and by the end of their claims; their own status does not wake them.
func (r *Reconciler) Register(m manager.Manager) error {
	if r.Client == nil || r.Azure == nil || r.Versions == nil {
		return errors.New("nodeclass: Client, Azure and Versions are required")
	}
	// Karpenter's types are in the scheme of the whole process, which other managers may be reading.
	if s := m.GetScheme(); !s.Recognizes(v1beta1.GroupVersion().WithKind(v1beta1.Kind)) {
		if err := v1beta1.AddToScheme(s); err != nil {
			return fmt.Errorf("teaching the manager AKSNodeClass: %w", err)
		}
	}
	if r.Events == nil {
		r.Events = events.New(r.Client, r.Log.WithName("events"), func() {})
		r.Events.Panics = r.Panics
		if err := m.Add(panics.Runnable{Panics: r.Panics, Where: "events", Run: r.Events.Start, Everywhere: true}); err != nil {
			return fmt.Errorf("adding the event recorder: %w", err)
		}
	}
	changed := predicate.Or(lookup.SpecOrAnnotationsChanged(), deleted())
	return builder.ControllerManagedBy(m).
		Named(Name).
		For(&v1beta1.AKSNodeClass{}, builder.WithPredicates(changed)).
		Watches(&karpv1.NodeClaim{}, handler.EnqueueRequestsFromMapFunc(classOf), builder.WithPredicates(gone())).
		WithOptions(controller.Options{MaxConcurrentReconciles: 10}).
		Complete(r)
}

// deleted passes the first update that carries a deletion timestamp.
func deleted() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetDeletionTimestamp().IsZero() && !e.ObjectNew.GetDeletionTimestamp().IsZero()
	}}
}

// gone passes deletions of objects; see lookup.MadeAnew.
func gone() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: lookup.MadeAnew,
	}
}

func classOf(_ context.Context, o client.Object) []reconcile.Request {
	claim, ok := o.(*karpv1.NodeClaim)
	if !ok || claim.Spec.NodeClassRef == nil || !refersTo(claim, claim.Spec.NodeClassRef.Name) {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: claim.Spec.NodeClassRef.Name}}}
}

// Classes reads node classes for the provider from a client, mostly the
// manager's cache.
func Classes(c client.Reader) azure.Classes {
	return azure.ClassesFunc(func(ctx context.Context, name string) (*v1beta1.AKSNodeClass, error) {
		class := &v1beta1.AKSNodeClass{}
		if err := c.Get(ctx, client.ObjectKey{Name: name}, class); err != nil {
			if client.IgnoreNotFound(err) == nil {
				return nil, azure.ErrClassNotFound
			}
			return nil, err
		}
		return class, nil
	})
}
