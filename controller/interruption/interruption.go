// Package interruption notices machines that go without being asked: a spot
// machine that is about to be taken back, or one that is gone already. It ends
// their claims at once, so that replacements are bought while pods still run or
// moments after they stopped.
//
// It refuses to believe a silent node: only the provider's word that the machine
// does not exist, or will not come back, ends a claim. The zero Reconciler is not
// usable; all fields are required.
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
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/provider"
)

const (
	// leastNotice is how long Azure leaves a spot machine, at the least, after announcing
	// its end.
	leastNotice = 30 * time.Second
	// recheck is how often a silent node's machine is asked about.
	recheck = 10 * time.Second
	workers = 50
)

// Reconciler ends claims whose machine goes.
type Reconciler struct {
	Client   client.Client
	Provider provider.Provider
	Events   *events.Recorder
	Metrics  *metrics.Set
	Log      logr.Logger
	// Class is the kind of node class whose claims are ours.
	Class schema.GroupKind
}

// Reconcile looks at one claim's node, and at its machine when the node is silent.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	claim := &karpv1.NodeClaim{}
	if err := r.Client.Get(ctx, req.NamespacedName, claim); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !r.concerns(claim) {
		return reconcile.Result{}, nil
	}
	node, err := r.nodeOf(ctx, claim)
	if err != nil {
		return reconcile.Result{}, err
	}
	if node != nil {
		if notice, ok := kube.NoticeOf(node); ok && notice.Kind == kube.NoticePreempt {
			return reconcile.Result{}, r.leaveInTime(ctx, claim, node, notice)
		}
	}
	if node != nil && kube.Ready(node) {
		return reconcile.Result{}, nil
	}
	return r.verify(ctx, claim)
}

// concerns reports whether the claim's node could be lost: it had one.
func (r *Reconciler) concerns(claim *karpv1.NodeClaim) bool {
	return claim.DeletionTimestamp == nil && kube.OfKind(claim.Spec.NodeClassRef, r.Class) &&
		claim.Status.ProviderID != "" && kube.ConditionTrue(claim, karpv1.ConditionTypeRegistered)
}

func (r *Reconciler) nodeOf(ctx context.Context, claim *karpv1.NodeClaim) (*corev1.Node, error) {
	nodes, err := lookup.NodesOf(ctx, r.Client, claim)
	if err != nil || len(nodes) == 0 {
		return nil, err
	}
	return &nodes[0], nil
}

// leaveInTime starts the drain with the machine's end as its deadline, so that pods
// get all the time there is. No budget holds it up: the machine goes anyway.
func (r *Reconciler) leaveInTime(ctx context.Context, claim *karpv1.NodeClaim, node *corev1.Node, n kube.Notice) error {
	if err := r.setDeadline(ctx, claim, deadline(n, time.Now())); err != nil {
		return err
	}
	r.Events.Publish(events.Event{About: node, Warning: true, Reason: "SpotInterrupted", Key: "announced",
		Message: "The machine is about to be taken back: draining, and buying a replacement"})
	return r.end(ctx, claim, "interruption announced")
}

// deadline is when the machine may be gone. A notice that does not say has been seen
// a moment after it came.
func deadline(n kube.Notice, now time.Time) time.Time {
	switch {
	case n.Started:
		return now
	case n.At.IsZero():
		return now.Add(leastNotice)
	}
	return n.At
}

// setDeadline leaves an earlier deadline as it is.
func (r *Reconciler) setDeadline(ctx context.Context, claim *karpv1.NodeClaim, deadline time.Time) error {
	earlier, err := time.Parse(time.RFC3339, claim.Annotations[karpv1.NodeClaimTerminationTimestampAnnotationKey])
	if err == nil && !earlier.After(deadline) {
		return nil
	}
	stored := claim.DeepCopy()
	if claim.Annotations == nil {
		claim.Annotations = map[string]string{}
	}
	claim.Annotations[karpv1.NodeClaimTerminationTimestampAnnotationKey] = deadline.Format(time.RFC3339)
	if err := r.Client.Patch(ctx, claim, client.MergeFrom(stored)); err != nil {
		return fmt.Errorf("stamping the deadline of nodeclaim %s: %w", claim.Name, err)
	}
	return nil
}

// verify asks the cloud about a machine whose node is missing or silent.
func (r *Reconciler) verify(ctx context.Context, claim *karpv1.NodeClaim) (reconcile.Result, error) {
	machine, err := r.Provider.Get(ctx, claim.Status.ProviderID)
	switch {
	case errors.Is(err, provider.ErrNotFound):
		return reconcile.Result{}, r.end(ctx, claim, "machine is gone")
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("asking about the machine of nodeclaim %s: %w", claim.Name, err)
	case machine.State == provider.Stopped || machine.State == provider.Terminating:
		return reconcile.Result{}, r.end(ctx, claim, "machine is "+string(machine.State))
	}
	return reconcile.Result{RequeueAfter: recheck}, nil
}

func (r *Reconciler) end(ctx context.Context, claim *karpv1.NodeClaim, why string) error {
	err := r.Client.Delete(ctx, claim, client.Preconditions{UID: &claim.UID})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("deleting nodeclaim %s (%s): %w", claim.Name, why, err)
	}
	r.Metrics.Disrupted(claim, "interrupted")
	r.Events.Publish(events.Event{About: claim, Warning: true, Reason: "Interrupted", Message: "Deleting NodeClaim: " + why})
	r.Log.Info("lost machine, deleting nodeclaim", "nodeclaim", claim.Name, "provider-id", claim.Status.ProviderID, "reason", why)
	return nil
}

// Register adds the reconciler to a manager. Nodes wake it when they change or go.
func (r *Reconciler) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).
		Named("nodeclaim.interruption").
		For(&karpv1.NodeClaim{}).
		Watches(&corev1.Node{}, lookup.WakeClaims(m.GetClient())).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, time.Minute),
		}).
		Complete(r)
}
