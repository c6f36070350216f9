// SPDX-License-Identifier: Apache-2.0

// Package nodepool maintains the status of a NodePool: whether it is
// valid, whether its node class is ready, what it has provisioned, and the hash
// that shows whether its nodes still match it.
//
// One pool's trouble never affects another: each is reconciled by
// itself, and a broken one is merely not Ready. The zero Reconciler is not usable;
// all fields are required.
package nodepool

import (
	"context"
	"fmt"
	"time"

	"github.com/awslabs/operatorpkg/status"
	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/metrics"
	"github.com/karve-dev/karve/controller/registrationhealth"
	"github.com/karve-dev/karve/controller/write"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/kube/state"
)

const (
	// recount is how often the resources of a pool are added up anyway.
	recount = 10 * time.Second
	// unsynced is how soon to look again while the cluster is not known completely.
	unsynced = 200 * time.Millisecond
)

// Reconciler keeps NodePools' status.
type Reconciler struct {
	Client  client.Client
	Mirror  *state.Mirror
	Metrics *metrics.Set
	Log     logr.Logger
	// Health holds the outcomes of the last launches.
	Health *registrationhealth.Ledger
	// NodeClassGVK is the kind of node class that this installation serves, in the version to read.
	NodeClassGVK schema.GroupVersionKind

	shown shownSeries
	gone  deletedPools
}

// Reconcile brings one pool's annotations and status up to date.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	pool := &karpv1.NodePool{}
	if err := r.Client.Get(ctx, req.NamespacedName, pool); err != nil {
		if apierrors.IsNotFound(err) {
			return r.dropState(ctx, req.Name)
		}
		return reconcile.Result{}, err
	}
	r.gone.remove(pool.Name)
	if !kube.OfKind(pool.Spec.Template.Spec.NodeClassRef, r.NodeClassGVK.GroupKind()) {
		return reconcile.Result{}, nil
	}
	if !r.Mirror.Synced() { // its status would report no nodes
		return reconcile.Result{RequeueAfter: unsynced}, nil
	}
	if err := r.recordHash(ctx, pool); err != nil {
		return retry(err)
	}
	stored := pool.DeepCopy()
	validate(log.IntoContext(ctx, r.Log), pool)
	if err := r.copyClassConditions(ctx, pool); err != nil {
		return retry(err)
	}
	if err := r.count(ctx, pool); err != nil {
		return retry(err)
	}
	return retry(write.Status(ctx, r.Client, pool, stored))
}

func retry(err error) (reconcile.Result, error) {
	return write.RetryConflict(reconcile.Result{RequeueAfter: recount}, client.IgnoreNotFound(err))
}

// validate checks rules that the schema cannot.
func validate(ctx context.Context, pool *karpv1.NodePool) {
	if err := pool.RuntimeValidate(ctx); err != nil {
		pool.StatusConditions().SetFalse(karpv1.ConditionTypeValidationSucceeded, "NodePoolValidationFailed", err.Error())
		return
	}
	pool.StatusConditions().SetTrue(karpv1.ConditionTypeValidationSucceeded)
}

// copyClassConditions copies the readiness and the quota condition of the pool's node class, and
// sets what depends on the class's generation.
func (r *Reconciler) copyClassConditions(ctx context.Context, pool *karpv1.NodePool) error {
	const condition = karpv1.ConditionTypeNodeClassReady
	class := &unstructured.Unstructured{}
	class.SetGroupVersionKind(r.NodeClassGVK)
	name := pool.Spec.Template.Spec.NodeClassRef.Name
	err := r.Client.Get(ctx, client.ObjectKey{Name: name}, class)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		pool.StatusConditions().SetFalse(condition, "NodeClassNotFound",
			fmt.Sprintf("%s %q does not exist: create it or correct spec.template.spec.nodeClassRef", r.NodeClassGVK.Kind, name))
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading node class %q: %w", name, err)
	}
	if class.GetDeletionTimestamp() != nil {
		pool.StatusConditions().SetFalse(condition, "NodeClassTerminating", fmt.Sprintf("%s %q is being deleted", r.NodeClassGVK.Kind, name))
		return nil
	}
	copyCondition(pool, class)
	copyQuotaCondition(pool, class)
	r.setRegistrationHealthy(pool, class.GetGeneration())
	return nil
}

// copyQuotaCondition copies the condition about quota from the pool's node class; none if the
// class has none.
func copyQuotaCondition(pool *karpv1.NodePool, class *unstructured.Unstructured) {
	const condition = kube.ConditionQuotaAvailable
	if quota := conditionOf(class, condition); quota.Reason != "" {
		pool.StatusConditions().Set(quota)
		return
	}
	_ = pool.StatusConditions().Clear(condition) // fails for conditions that Ready depends on
}

func copyCondition(pool *karpv1.NodePool, class *unstructured.Unstructured) {
	const condition = karpv1.ConditionTypeNodeClassReady
	ready := conditionOf(class, "Ready")
	switch ready.Status {
	case metav1.ConditionTrue:
		pool.StatusConditions().SetTrue(condition)
	case metav1.ConditionFalse:
		pool.StatusConditions().SetFalse(condition, ready.Reason, ready.Message)
	default:
		pool.StatusConditions().SetUnknownWithReason(condition, "NodeClassReadinessUnknown", "Node Class Readiness Unknown")
	}
}

// conditionOf reads a condition of any kind of node class; one that is not there is
// unknown, and has no reason.
func conditionOf(class *unstructured.Unstructured, kind string) status.Condition {
	list, _, _ := unstructured.NestedSlice(class.Object, "status", "conditions")
	for _, item := range list {
		c, ok := item.(map[string]any)
		if !ok || c["type"] != kind {
			continue
		}
		text := func(key string) string { s, _ := c[key].(string); return s }
		return status.Condition{Type: kind, Status: metav1.ConditionStatus(text("status")), Reason: text("reason"), Message: text("message")}
	}
	return status.Condition{Type: kind, Status: metav1.ConditionUnknown}
}
