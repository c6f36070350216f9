// SPDX-License-Identifier: Apache-2.0

// Package interruption detects instances that end without karve's doing: a spot
// instance that is about to be evicted, one that will be restarted, moved or
// deleted from outside, or one that does not exist any more. It deletes their claims in time, so
// that replacements are launched while pods still run or moments after they stopped.
//
// A node that does not report is not enough to delete a claim: only the provider's answer that the
// instance does not exist, or will not start again, is. No budget delays it, nor the share of
// unhealthy nodes that stops controller/repair: the instance ends anyway. The zero Reconciler is
// not usable; all fields are required unless their comments say otherwise.
package interruption

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/events"
	"github.com/karve-dev/karve/controller/lookup"
	"github.com/karve-dev/karve/controller/metrics"
	"github.com/karve-dev/karve/controller/write"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/provider"
)

const (
	// leastNotice is the shortest time between Azure's notice and the eviction of a spot VM,
	// leastMaintenance the shortest time before any other event that ends a VM.
	leastNotice      = 30 * time.Second
	leastMaintenance = 5 * time.Minute
	// replaceFirstTime is how much time must be left to initialize a replacement first: twice the
	// time from a launch to an initialized node.
	replaceFirstTime = 5 * time.Minute
	// recheck is the interval between requests about the instance of a node that does not report.
	recheck = 10 * time.Second
	// failedCountsAfter is how long a node does not report until its instance's failure counts.
	failedCountsAfter = 2 * time.Minute
	workers           = 50
)

// Reconciler deletes claims whose instance ends or has ended.
type Reconciler struct {
	Client   client.Client
	Provider provider.Provider
	// SpotObserver is notified of the offerings of evicted instances; nil when it is not
	// needed.
	SpotObserver provider.SpotObserver
	Events       *events.Recorder
	Metrics      *metrics.Set
	Log          logr.Logger
	// NodeClassKind is the kind of node class that this installation serves.
	NodeClassKind schema.GroupKind
}

// Reconcile checks one claim's node, and its instance when the node does not report.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	claim := &karpv1.NodeClaim{}
	if err := r.Client.Get(ctx, req.NamespacedName, claim); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !r.applies(claim) {
		return reconcile.Result{}, nil
	}
	node, err := r.nodeOf(ctx, claim)
	if err != nil {
		return reconcile.Result{}, err
	}
	if node == nil {
		return r.deleteIfLost(ctx, claim, failedCountsAfter)
	}
	if notice, ok := kube.BelievedNotice(node, claim); ok && notice.Kind != kube.NoticeFreeze {
		return write.RetryConflict(r.handleNotice(ctx, claim, node, notice))
	} else if ok {
		r.reportFreeze(node, notice)
	}
	if err := r.withdrawRequest(ctx, claim); err != nil {
		return write.RetryConflict(reconcile.Result{}, err)
	}
	if kube.Ready(node) {
		return reconcile.Result{}, nil
	}
	return r.deleteIfLost(ctx, claim, notReadyFor(node))
}

// notReadyFor is for how long a node has not been ready.
func notReadyFor(node *corev1.Node) time.Duration {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return time.Since(c.LastTransitionTime.Time)
		}
	}
	return 0
}

// applies reports whether the claim had a node of this installation, which may be interrupted.
func (r *Reconciler) applies(claim *karpv1.NodeClaim) bool {
	return claim.DeletionTimestamp == nil && kube.OfKind(claim.Spec.NodeClassRef, r.NodeClassKind) &&
		claim.Status.ProviderID != "" && kube.ConditionTrue(claim, karpv1.ConditionTypeRegistered)
}

func (r *Reconciler) nodeOf(ctx context.Context, claim *karpv1.NodeClaim) (*corev1.Node, error) {
	nodes, err := lookup.NodesOf(ctx, r.Client, claim)
	return kube.NodeOfInstance(nodes, claim.Status.NodeName), err
}

// handleNotice acts on a notice that the instance ends: the claim is replaced first while there is
// time for that, and drained before the instance ends otherwise.
func (r *Reconciler) handleNotice(ctx context.Context, claim *karpv1.NodeClaim, node *corev1.Node, n kube.Notice) (reconcile.Result, error) {
	end := deadline(n, time.Now())
	if spare := time.Until(end) - replaceFirstTime; n.Kind != kube.NoticePreempt && spare > 0 {
		return reconcile.Result{RequeueAfter: spare}, r.requestReplacement(ctx, claim, node, n, end)
	}
	return reconcile.Result{}, r.drainBefore(ctx, claim, node, n, end)
}

// drainBefore starts the drain with the instance's end as its deadline, so that pods
// get all the time there is. No budget delays it: the instance ends anyway.
func (r *Reconciler) drainBefore(ctx context.Context, claim *karpv1.NodeClaim, node *corev1.Node, n kube.Notice, end time.Time) error {
	if n.Kind == kube.NoticePreempt {
		r.reportSpotEviction(claim)
	}
	if err := r.recordInterruption(ctx, claim, string(n.Kind), end); err != nil {
		return err
	}
	r.Events.Publish(events.Event{About: node, Warning: true, Reason: reasonOf(n.Kind), Key: "announced",
		Message: fmt.Sprintf("The instance %s: draining it and launching a replacement", describeNotice(n.Kind))})
	return r.deleteClaim(ctx, claim, "interruption announced: "+string(n.Kind))
}

// reportSpotEviction reports the instance's offering before a replacement is chosen.
func (r *Reconciler) reportSpotEviction(claim *karpv1.NodeClaim) {
	if r.SpotObserver != nil {
		r.SpotObserver.SpotReclaimed(kube.OfferingOf(claim))
	}
}

// requestReplacement marks the claim as due, for disruption to replace its node before it drains
// it.
func (r *Reconciler) requestReplacement(ctx context.Context, claim *karpv1.NodeClaim, node *corev1.Node, n kube.Notice, end time.Time) error {
	stored := claim.DeepCopy()
	text := fmt.Sprintf("The instance %s at %s", describeNotice(n.Kind), end.UTC().Format(time.RFC3339))
	if claim.StatusConditions().SetTrueWithReason(kube.ConditionMaintenance, string(n.Kind), text) {
		r.Events.Publish(events.Event{About: node, Warning: true, Reason: reasonOf(n.Kind), Key: "asked", Message: text + ": replacing it before"})
		r.Log.Info("instance will be interrupted, launching its replacement first", "nodeclaim", claim.Name, "node", node.Name, "notice", n.Kind, "at", end)
	}
	return write.Status(ctx, r.Client, claim, stored)
}

// withdrawRequest clears the condition that requestReplacement sets, once the notice is withdrawn.
func (r *Reconciler) withdrawRequest(ctx context.Context, claim *karpv1.NodeClaim) error {
	if !kube.ConditionTrue(claim, kube.ConditionMaintenance) {
		return nil
	}
	stored := claim.DeepCopy()
	_ = claim.StatusConditions().Clear(kube.ConditionMaintenance) // fails for dependents only
	return write.Status(ctx, r.Client, claim, stored)
}

// reportFreeze publishes an event on the node; an instance that freezes for some
// seconds keeps its pods.
func (r *Reconciler) reportFreeze(node *corev1.Node, n kube.Notice) {
	r.Events.Publish(events.Event{About: node, Reason: reasonOf(n.Kind), Key: n.EventID,
		Message: "The instance will pause for some seconds; the node is kept"})
}

// reasonOf is the reason of the event about a notice.
func reasonOf(k kube.NoticeKind) string {
	if k == kube.NoticePreempt {
		return "SpotInterrupted"
	}
	return string(k) + "Scheduled"
}

// describeNotice describes what will happen to the instance.
func describeNotice(k kube.NoticeKind) string {
	switch k {
	case kube.NoticeTerminate:
		return "is about to be deleted"
	case kube.NoticeRedeploy:
		return "is about to move to another host, without its local disks"
	case kube.NoticeReboot:
		return "is about to be restarted"
	}
	return "is about to be reclaimed"
}

// deadline is when the instance may end. A notice without a time counts from now: it has been seen
// a moment after it was written.
func deadline(n kube.Notice, now time.Time) time.Time {
	switch {
	case n.Started:
		return now
	case !n.At.IsZero():
		return n.At
	case n.Kind == kube.NoticePreempt:
		return now.Add(leastNotice)
	}
	return now.Add(leastMaintenance)
}

// recordInterruption records why the claim is deleted, and by when. A zero deadline means none,
// and an earlier deadline is kept.
func (r *Reconciler) recordInterruption(ctx context.Context, claim *karpv1.NodeClaim, why string, deadline time.Time) error {
	const key = karpv1.NodeClaimTerminationTimestampAnnotationKey
	stored := claim.DeepCopy()
	if claim.Annotations == nil {
		claim.Annotations = map[string]string{}
	}
	claim.Annotations[kube.InterruptedAnnotation] = why
	earlier, err := time.Parse(time.RFC3339, claim.Annotations[key])
	if !deadline.IsZero() && (err != nil || earlier.After(deadline)) {
		claim.Annotations[key] = deadline.Format(time.RFC3339)
	}
	if err := r.Client.Patch(ctx, claim, client.MergeFrom(stored)); err != nil {
		return fmt.Errorf("recording the end of nodeclaim %s: %w", claim.Name, err)
	}
	return nil
}

// deleteIfLost looks up an instance whose node is missing, or does not report for so long, and
// deletes the claim if the instance runs no pods any more.
// The state Failed may be stale for an instance that only restarts: it counts after a while.
func (r *Reconciler) deleteIfLost(ctx context.Context, claim *karpv1.NodeClaim, notReady time.Duration) (reconcile.Result, error) {
	instance, err := r.Provider.Get(ctx, claim.Status.ProviderID)
	switch {
	case errors.Is(err, provider.ErrNotFound):
		return reconcile.Result{}, r.deleteLost(ctx, claim, "instance is gone")
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("reading the instance of nodeclaim %s: %w", claim.Name, err)
	case instance.State == provider.Failed && notReady < failedCountsAfter:
	case instance.State.Lost():
		return reconcile.Result{}, r.deleteLost(ctx, claim, "instance is "+string(instance.State))
	}
	return reconcile.Result{RequeueAfter: recheck}, nil
}

// deleteLost deletes the claim of an instance that runs no pods any more.
// A spot instance that ends without notice was most likely evicted.
func (r *Reconciler) deleteLost(ctx context.Context, claim *karpv1.NodeClaim, why string) error {
	if claim.Labels[karpv1.CapacityTypeLabelKey] == karpv1.CapacityTypeSpot {
		r.reportSpotEviction(claim)
	}
	if err := r.recordInterruption(ctx, claim, "Lost", time.Time{}); err != nil {
		return client.IgnoreNotFound(err)
	}
	return r.deleteClaim(ctx, claim, why)
}

func (r *Reconciler) deleteClaim(ctx context.Context, claim *karpv1.NodeClaim, why string) error {
	err := r.Client.Delete(ctx, claim, client.Preconditions{UID: &claim.UID})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("deleting nodeclaim %s (%s): %w", claim.Name, why, err)
	}
	r.Metrics.Disrupted(claim, "interrupted")
	r.Events.Publish(events.Event{About: claim, Warning: true, Reason: "Interrupted", Message: "Deleting NodeClaim: " + why})
	r.Log.Info("instance is interrupted, deleting nodeclaim", "nodeclaim", claim.Name, "provider-id", claim.Status.ProviderID, "reason", why)
	return nil
}

// Register adds the reconciler to a manager. Changes and deletions of Nodes queue their claims.
func (r *Reconciler) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).
		Named("nodeclaim.interruption").
		For(&karpv1.NodeClaim{}).
		Watches(&corev1.Node{}, lookup.EnqueueClaimsOfNode(m.GetClient())).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, time.Minute),
		}).
		Complete(r)
}
