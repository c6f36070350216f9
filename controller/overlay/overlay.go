// SPDX-License-Identifier: Apache-2.0

// Package overlay follows NodeOverlays: it reads them for the catalog and sets
// the status of each.
//
// It applies no overlay itself: the catalog does. The zero
// Reconciler is not usable; all fields are required.
package overlay

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	karpv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/karve-dev/karve/controller/catalog"
	"github.com/karve-dev/karve/controller/write"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/kube"
)

// again is how often overlays are validated without an event: the catalog changes too.
const again = time.Minute

// Source reads overlays from a cache. One that cannot be read is left out: its
// condition gives the reason.
func Source(c client.Reader) catalog.Source {
	return func(ctx context.Context) (catalog.Overlays, error) {
		list, err := read(ctx, c)
		if err != nil {
			return catalog.Overlays{}, err
		}
		out := catalog.Overlays{Version: version(list)}
		for i := range list {
			if o, err := convert(ctx, &list[i]); err == nil {
				out.List = append(out.List, o)
			}
		}
		return out, nil
	}
}

// read lists all overlays; none in a cluster that does not know the kind.
func read(ctx context.Context, c client.Reader) ([]karpv1alpha1.NodeOverlay, error) {
	list := &karpv1alpha1.NodeOverlayList{}
	if err := c.List(ctx, list); err != nil && !meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("listing nodeoverlays: %w", err)
	}
	return list.Items, nil
}

// version changes with every change of a spec; it is never empty.
func version(list []karpv1alpha1.NodeOverlay) string {
	var b strings.Builder
	b.WriteString("overlays")
	for i := range list {
		fmt.Fprintf(&b, " %s/%s/%d", list[i].Name, list[i].UID, list[i].Generation)
	}
	return b.String()
}

func convert(ctx context.Context, o *karpv1alpha1.NodeOverlay) (offering.Overlay, error) {
	out, err := kube.Overlay(o)
	return out, errors.Join(o.RuntimeValidate(ctx), err)
}

// Reconciler maintains NodeOverlays' status. One request stands for all of them:
// whether one is valid depends on the others.
type Reconciler struct {
	Client  client.Client
	Catalog *catalog.Keeper
}

// Reconcile judges all overlays together.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	list, err := read(ctx, r.Client)
	if err != nil {
		return reconcile.Result{}, err
	}
	problems := r.validate(ctx, list)
	var errs []error
	for i := range list {
		errs = append(errs, r.save(ctx, &list[i], problems[list[i].Name]))
	}
	return write.RetryConflict(reconcile.Result{RequeueAfter: again}, errors.Join(errs...))
}

// problem is a reason and a message of the condition; the zero problem is none.
type problem struct{ reason, message string }

func (r *Reconciler) validate(ctx context.Context, list []karpv1alpha1.NodeOverlay) map[string]problem {
	problems := map[string]problem{}
	var overlays []offering.Overlay
	for i := range list {
		o, err := convert(ctx, &list[i])
		if err != nil {
			problems[list[i].Name] = problem{"RuntimeValidation", err.Error()}
			continue
		}
		overlays = append(overlays, o)
	}
	for _, f := range r.Catalog.OverlayProblems(overlays) {
		reason := "RuntimeValidation"
		if f.Conflict {
			reason = "Conflict"
		}
		problems[f.Overlay] = problem{reason, f.Detail}
	}
	return problems
}

func (r *Reconciler) save(ctx context.Context, o *karpv1alpha1.NodeOverlay, p problem) error {
	stored := o.DeepCopy()
	if p.reason == "" {
		o.StatusConditions().SetTrue(karpv1alpha1.ConditionTypeValidationSucceeded)
	} else {
		o.StatusConditions().SetFalse(karpv1alpha1.ConditionTypeValidationSucceeded, p.reason, p.message)
	}
	return write.Status(ctx, r.Client, o, stored)
}

// Register adds the reconciler to a manager.
func (r *Reconciler) Register(m manager.Manager) error {
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: "all"}}}
	})
	return builder.ControllerManagedBy(m).
		Named("nodeoverlay").
		Watches(&karpv1alpha1.NodeOverlay{}, all).
		Watches(&karpv1.NodePool{}, all).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Complete(r)
}
