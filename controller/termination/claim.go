// SPDX-License-Identifier: Apache-2.0

package termination

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/events"
	"github.com/karve-dev/karve/controller/lookup"
	"github.com/karve-dev/karve/controller/metrics"
	"github.com/karve-dev/karve/controller/write"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/provider"
)

// terminationPoll is the interval between requests to the provider whether an instance is deleted.
const terminationPoll = 2 * time.Second

// ClaimReconciler finalizes NodeClaims: first it deletes the node, then the instance, then the
// claim. It runs on the lifecycle's queue (see lifecycle.Reconciler.Terminator), so that no worker
// terminates a claim that another worker still launches.
type ClaimReconciler struct {
	Client client.Client
	// Clock is the API server's.
	Clock    *kube.ServerClock
	Provider provider.Provider
	Events   *events.Recorder
	Metrics  *metrics.Set
	Log      logr.Logger
	// NodeClassKind is the kind of node class that this installation serves.
	NodeClassKind schema.GroupKind
}

// Reconcile takes one step of finalizing a claim.
func (r *ClaimReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	claim := &karpv1.NodeClaim{}
	if err := r.Client.Get(ctx, req.NamespacedName, claim); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if claim.DeletionTimestamp == nil || !kube.OfKind(claim.Spec.NodeClassRef, r.NodeClassKind) || !controllerutil.ContainsFinalizer(claim, karpv1.TerminationFinalizer) {
		return reconcile.Result{}, nil
	}
	return write.RetryConflict(r.finalize(ctx, claim))
}

func (r *ClaimReconciler) finalize(ctx context.Context, claim *karpv1.NodeClaim) (reconcile.Result, error) {
	if other, err := r.otherClaim(ctx, claim); err != nil {
		return reconcile.Result{}, err
	} else if other != "" {
		r.Log.Info("nodeclaim goes without its instance, which another nodeclaim has, too", "nodeclaim", claim.Name, "provider-id", claim.Status.ProviderID, "other", other)
		return reconcile.Result{}, r.removeFinalizer(ctx, claim)
	}
	if err := r.recordDeadline(ctx, claim); err != nil {
		return reconcile.Result{}, err
	}
	waiting, err := r.deleteNodes(ctx, claim)
	if err != nil || waiting {
		// The node's deletion queues the claim earlier.
		return reconcile.Result{RequeueAfter: 5 * time.Second}, err
	}
	gone, err := r.terminateInstance(ctx, claim)
	if err != nil {
		return reconcile.Result{}, errors.Join(err, reportFailure(ctx, r.Client, r.Events, claim, err))
	}
	if !gone {
		return reconcile.Result{RequeueAfter: terminationPoll}, r.markTerminating(ctx, claim)
	}
	return reconcile.Result{}, r.removeFinalizer(ctx, claim)
}

// otherClaim is the name of a claim that has the same instance and is not being deleted; "" if there is
// none. Copies of a claim have the same, and so may what is restored from a backup.
func (r *ClaimReconciler) otherClaim(ctx context.Context, claim *karpv1.NodeClaim) (string, error) {
	claims, err := lookup.ClaimsOfInstance(ctx, r.Client, claim.Status.ProviderID)
	if err != nil {
		return "", fmt.Errorf("looking for other nodeclaims with the instance of %s: %w", claim.Name, err)
	}
	for _, c := range claims {
		if c.UID != claim.UID && c.DeletionTimestamp == nil {
			return c.Name, nil
		}
	}
	return "", nil
}

// recordDeadline records when terminationGracePeriod ends, once: it counts from the deletion.
func (r *ClaimReconciler) recordDeadline(ctx context.Context, claim *karpv1.NodeClaim) error {
	grace := claim.Spec.TerminationGracePeriod
	if grace == nil || claim.Annotations[karpv1.NodeClaimTerminationTimestampAnnotationKey] != "" {
		return nil
	}
	stored := claim.DeepCopy()
	begun := r.Clock.Local(claim.DeletionTimestamp.Time)
	if now := time.Now(); begun.After(now) {
		begun = now
	}
	deadline := begun.Add(grace.Duration)
	if claim.Annotations == nil {
		claim.Annotations = map[string]string{}
	}
	claim.Annotations[karpv1.NodeClaimTerminationTimestampAnnotationKey] = deadline.Format(time.RFC3339)
	if err := r.Client.Patch(ctx, claim, client.MergeFrom(stored)); err != nil {
		return fmt.Errorf("recording the deadline of nodeclaim %s: %w", claim.Name, err)
	}
	r.Events.Publish(events.Event{About: claim, Warning: true, Reason: "TerminationGracePeriodExpiring",
		Message: "All pods will be deleted by " + deadline.Format(time.RFC3339)})
	r.Log.Info("annotated nodeclaim", "nodeclaim", claim.Name, "deadline", deadline.Format(time.RFC3339))
	return nil
}

// deleteNodes deletes the nodes with the instance's provider ID and reports whether one that the claim
// waits for still exists. It does not wait for a node without karve's finalizer, which is removed at once
// and not drained, nor for one that another machine's kubelet made: its pods could keep the instance.
func (r *ClaimReconciler) deleteNodes(ctx context.Context, claim *karpv1.NodeClaim) (waiting bool, err error) {
	nodes, err := lookup.NodesOfInstance(ctx, r.Client, claim.Status.ProviderID)
	if err != nil {
		return false, fmt.Errorf("looking for the nodes of nodeclaim %s: %w", claim.Name, err)
	}
	for i := range nodes {
		n := &nodes[i]
		if n.DeletionTimestamp == nil {
			if err := r.Client.Delete(ctx, n); client.IgnoreNotFound(err) != nil {
				return false, fmt.Errorf("deleting node %s: %w", n.Name, err)
			}
		}
		waiting = waiting || kube.IsNodeOf(n, claim) && controllerutil.ContainsFinalizer(n, karpv1.TerminationFinalizer)
	}
	return waiting, nil
}

// terminateInstance terminates the instance, whether its provider ID is recorded or not, and
// reports whether it is deleted.
func (r *ClaimReconciler) terminateInstance(ctx context.Context, claim *karpv1.NodeClaim) (gone bool, err error) {
	if claim.Status.ProviderID == "" {
		err = r.Provider.TerminateByClaim(ctx, kube.ProviderClaim(claim, nil))
	} else {
		err = r.Provider.Terminate(ctx, claim.Status.ProviderID)
	}
	if errors.Is(err, provider.ErrNotFound) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("terminating the instance of nodeclaim %s: %w", claim.Name, err)
	}
	return false, nil
}

func (r *ClaimReconciler) markTerminating(ctx context.Context, claim *karpv1.NodeClaim) error {
	if kube.ConditionTrue(claim, karpv1.ConditionTypeInstanceTerminating) {
		return nil
	}
	return patchStatus(ctx, r.Client, claim, func() {
		claim.StatusConditions().SetTrue(karpv1.ConditionTypeInstanceTerminating)
	})
}

func (r *ClaimReconciler) removeFinalizer(ctx context.Context, claim *karpv1.NodeClaim) error {
	stored := claim.DeepCopy()
	controllerutil.RemoveFinalizer(claim, karpv1.TerminationFinalizer)
	patch := client.MergeFromWithOptions(stored, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, claim, patch); err != nil {
		return client.IgnoreNotFound(err)
	}
	pool, labels := stored.Labels[karpv1.NodePoolLabelKey], stored.Labels
	r.Metrics.ClaimTermination.WithLabelValues(pool).Observe(time.Since(stored.DeletionTimestamp.Time).Seconds())
	if c := stored.StatusConditions().Get(karpv1.ConditionTypeInstanceTerminating); c.IsTrue() {
		r.Metrics.InstanceTermination.WithLabelValues(pool).Observe(time.Since(c.LastTransitionTime.Time).Seconds())
	}
	r.Metrics.ClaimsTerminated.WithLabelValues(pool, labels[karpv1.CapacityTypeLabelKey], labels[corev1.LabelTopologyZone]).Inc()
	r.Events.Publish(events.Event{About: stored, Reason: "Finalized", Message: "Finalized karpenter.sh/termination"})
	r.Log.Info("deleted nodeclaim", "nodeclaim", stored.Name, "provider-id", stored.Status.ProviderID, "node", stored.Status.NodeName)
	return nil
}
