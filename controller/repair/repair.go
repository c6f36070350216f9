// SPDX-License-Identifier: Apache-2.0

// Package repair deletes NodeClaims whose node has a condition from which it does not recover
// according to the provider, so that others replace it. Karpenter has the
// same behind the feature gate NodeRepair.
//
// It deletes nothing when more than a fifth of a pool is unhealthy at once: that is rarely the
// nodes' fault. Otherwise it is forceful, as Karpenter is: budgets, PodDisruptionBudgets and
// karpenter.sh/do-not-disrupt do not delay it, and pods get no grace period. A pool may ask to be
// graceful while the kubelet still works (kube.GracefulRepair). The zero Reconciler is not usable;
// all fields are required.
package repair

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
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
	"github.com/karve-dev/karve/controller/write"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/provider"
)

// Name is the reconciler's in logs and metrics; Karpenter calls it so.
const Name = "node.health"

const (
	// blockedRetry is when a blocked repair is tried again.
	blockedRetry = 5 * time.Minute
	workers      = 10
)

// Reconciler repairs nodes by replacing them.
type Reconciler struct {
	Client   client.Client
	Policies []provider.RepairPolicy
	Events   *events.Recorder
	Metrics  *metrics.Set
	Log      logr.Logger
	// NodeClassKind is the kind of node class that this installation serves.
	NodeClassKind schema.GroupKind
}

// unhealthyNode is a claim with its node and its unhealthy condition.
type unhealthyNode struct {
	claim     *karpv1.NodeClaim
	node      *corev1.Node
	pool      *karpv1.NodePool // nil for a stand-alone claim, or when it was deleted
	condition unhealthyCondition
}

// Reconcile checks one claim's node.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	claim := &karpv1.NodeClaim{}
	if err := r.Client.Get(ctx, req.NamespacedName, claim); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if claim.DeletionTimestamp != nil || !kube.OfKind(claim.Spec.NodeClassRef, r.NodeClassKind) || !kube.ConditionTrue(claim, karpv1.ConditionTypeRegistered) {
		return reconcile.Result{}, nil
	}
	nodes, err := lookup.NodesOf(ctx, r.Client, claim)
	if err != nil || len(nodes) != 1 {
		return reconcile.Result{}, err // an event of its Node queues the claim
	}
	unhealthy, ok := unhealthyConditionOf(&nodes[0], r.Policies)
	wait := time.Until(unhealthy.due)
	if !ok || wait > 0 {
		return write.RetryConflict(reconcile.Result{RequeueAfter: max(0, wait)}, r.withdrawRequest(ctx, claim))
	}
	pool, err := r.poolOf(ctx, claim)
	if err != nil {
		return reconcile.Result{}, err
	}
	return write.RetryConflict(r.repair(ctx, unhealthyNode{claim, &nodes[0], pool, unhealthy}))
}

func (r *Reconciler) poolOf(ctx context.Context, claim *karpv1.NodeClaim) (*karpv1.NodePool, error) {
	name, pool := claim.Labels[karpv1.NodePoolLabelKey], &karpv1.NodePool{}
	if name == "" {
		return nil, nil
	}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, pool); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return pool, nil
}

// repair replaces the node, now or through disruption.
func (r *Reconciler) repair(ctx context.Context, p unhealthyNode) (reconcile.Result, error) {
	if kube.GracefulRepair(p.pool) && kube.Ready(p.node) {
		return reconcile.Result{RequeueAfter: blockedRetry}, r.requestReplacement(ctx, p)
	}
	blocked, err := r.whyBlocked(ctx, p)
	if err != nil {
		return reconcile.Result{}, err
	}
	if blocked != "" {
		r.reportBlocked(p, blocked)
		return reconcile.Result{RequeueAfter: blockedRetry}, nil
	}
	return reconcile.Result{}, r.deleteClaim(ctx, p)
}

// whyBlocked returns why nothing is done: too many nodes of the pool, or of the cluster
// for a claim without one, are unhealthy, whether they may yet recover or not.
func (r *Reconciler) whyBlocked(ctx context.Context, p unhealthyNode) (string, error) {
	nodes, where, of := &corev1.NodeList{}, "the cluster", []client.ListOption{}
	if pool := p.claim.Labels[karpv1.NodePoolLabelKey]; pool != "" {
		where, of = "nodepool "+pool, append(of, client.MatchingLabels{karpv1.NodePoolLabelKey: pool})
	}
	if err := r.Client.List(ctx, nodes, of...); err != nil {
		return "", fmt.Errorf("counting unhealthy nodes of %s: %w", where, err)
	}
	count := 0
	for i := range nodes.Items {
		if _, unhealthy := unhealthyConditionOf(&nodes.Items[i], r.Policies); unhealthy {
			count++
		}
	}
	if allowed := maxUnhealthy(len(nodes.Items)); count > allowed {
		return fmt.Sprintf("more than %d%% of the nodes of %s are unhealthy: %d of %d, %d may be repaired at once",
			maxUnhealthyPercent, where, count, len(nodes.Items), allowed), nil
	}
	return "", nil
}

func (r *Reconciler) reportBlocked(p unhealthyNode, why string) {
	about := []client.Object{p.node, p.claim}
	if p.pool != nil {
		about = append(about, p.pool)
	}
	for _, o := range about {
		r.Events.Publish(events.Event{About: o, Warning: true, Reason: "NodeRepairBlocked", Message: why, Every: 15 * time.Minute})
	}
}

// requestReplacement marks the claim as due, for disruption to replace its node.
func (r *Reconciler) requestReplacement(ctx context.Context, p unhealthyNode) error {
	stored := p.claim.DeepCopy()
	if p.claim.StatusConditions().SetTrueWithReason(kube.ConditionUnhealthy, p.condition.reason(), p.condition.String()) {
		r.Log.Info("node is unhealthy, to be replaced gracefully", "nodeclaim", p.claim.Name, "node", p.node.Name, "condition", p.condition.String())
	}
	return write.Status(ctx, r.Client, p.claim, stored)
}

// withdrawRequest clears the condition that requestReplacement sets.
func (r *Reconciler) withdrawRequest(ctx context.Context, claim *karpv1.NodeClaim) error {
	stored := claim.DeepCopy()
	_ = claim.StatusConditions().Clear(kube.ConditionUnhealthy) // fails for dependents only
	return write.Status(ctx, r.Client, claim, stored)
}

// deleteClaim deletes the claim, with a deadline that leaves its pods no time: an unhealthy
// node may never confirm that they have ended.
func (r *Reconciler) deleteClaim(ctx context.Context, p unhealthyNode) error {
	if err := r.recordDeadline(ctx, p.claim, time.Now()); err != nil {
		return err
	}
	if err := r.Client.Delete(ctx, p.claim, client.Preconditions{UID: &p.claim.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting nodeclaim %s of an unhealthy node: %w", p.claim.Name, err)
	}
	labels := p.claim.Labels
	r.Metrics.Disrupted(p.claim, "unhealthy")
	r.Metrics.ClaimsUnhealthy.WithLabelValues(p.condition.metricLabel(), labels[karpv1.NodePoolLabelKey], labels[karpv1.CapacityTypeLabelKey], p.claim.Status.ImageID).Inc()
	r.Events.Publish(events.Event{About: p.claim, Warning: true, Reason: "Unhealthy", Message: "Deleting NodeClaim: " + p.condition.String()})
	r.Log.Info("deleting unhealthy node", "nodeclaim", p.claim.Name, "node", p.node.Name, "condition", p.condition.String(), "since", p.condition.since)
	return nil
}

// recordDeadline sets the claim's deadline unless an earlier one is set, and records that pods lose
// their node involuntarily: nodes for them are launched before others.
func (r *Reconciler) recordDeadline(ctx context.Context, claim *karpv1.NodeClaim, deadline time.Time) error {
	const key = karpv1.NodeClaimTerminationTimestampAnnotationKey
	stored := claim.DeepCopy()
	if claim.Annotations == nil {
		claim.Annotations = map[string]string{}
	}
	claim.Annotations[kube.InterruptedAnnotation] = "Unhealthy"
	if set, err := time.Parse(time.RFC3339, claim.Annotations[key]); err != nil || set.After(deadline) {
		claim.Annotations[key] = deadline.Format(time.RFC3339)
	}
	if err := r.Client.Patch(ctx, claim, client.MergeFrom(stored)); err != nil {
		return fmt.Errorf("recording the deadline of nodeclaim %s: %w", claim.Name, err)
	}
	return nil
}

// Register adds the reconciler to a manager. Claims are queued by their Nodes, and by
// the annotations of their NodePool.
func (r *Reconciler) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).
		Named(Name).
		For(&karpv1.NodeClaim{}).
		Watches(&corev1.Node{}, lookup.EnqueueClaimsOfNode(m.GetClient())).
		Watches(&karpv1.NodePool{}, lookup.EnqueueClaimsOfPool(m.GetClient()), builder.WithPredicates(lookup.AnnotationsChanged())).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}
