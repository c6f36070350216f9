// SPDX-License-Identifier: Apache-2.0

package termination

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
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

const (
	// drainPoll is the interval between steps of a drain; evictions have their own back-off.
	drainPoll = time.Second
	// lateBindingWindow is how long a node without pods is still watched: the scheduler may have
	// bound a pod just before it saw the taint.
	lateBindingWindow = 2 * time.Second
	// minReadDelay and maxReadDelay bound the time between two reads of an instance that may be gone.
	minReadDelay, maxReadDelay = 2 * time.Second, 15 * time.Second
	// podStatusDelay is how long a kubelet may take to report that a pod has ended.
	podStatusDelay = 2 * time.Second
	// labelExcludeBalancers is set before the drain, so that no new connection arrives.
	labelExcludeBalancers = corev1.LabelNodeExcludeBalancers
	// reasonElapsed is the reason when a node does not wait any longer for pods or volumes.
	reasonElapsed = "TerminationGracePeriodElapsed"
)

// NodeReconciler drains and finalizes Nodes that carry karve's finalizer.
type NodeReconciler struct {
	Client client.Client
	// Live reads past the cache: a stale cache may lack pods of the node.
	Live client.Reader
	// Clock is the API server's.
	Clock    *kube.ServerClock
	Provider provider.Provider
	Evictor  *Evictor
	Events   *events.Recorder
	Metrics  *metrics.Set
	Log      logr.Logger

	observations sync.Map // name of a Node → *observation
}

// observation is what this process has seen of a Node that is being deleted, by this machine's clock. A
// Node has one worker at a time, which alone uses it.
type observation struct {
	uid types.UID
	// empty is when the Node was first found without pods.
	empty time.Time
	// nextRead is when the instance may be read again, readDelay after the last read.
	nextRead  time.Time
	readDelay time.Duration
}

func (r *NodeReconciler) observationOf(node *corev1.Node) *observation {
	if o, found := r.observations.Load(node.Name); found && o.(*observation).uid == node.UID {
		return o.(*observation)
	}
	o := &observation{uid: node.UID}
	r.observations.Store(node.Name, o)
	return o
}

// Reconcile takes one step of removing a node.
func (r *NodeReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	node := &corev1.Node{}
	if err := r.Client.Get(ctx, req.NamespacedName, node); err != nil {
		if apierrors.IsNotFound(err) {
			r.observations.Delete(req.Name)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if node.DeletionTimestamp == nil || !controllerutil.ContainsFinalizer(node, karpv1.TerminationFinalizer) {
		return reconcile.Result{}, nil
	}
	claim, err := r.claimOf(ctx, node)
	if err != nil {
		return reconcile.Result{}, err
	}
	return write.RetryConflict(r.finalize(ctx, node, claim))
}

// claimOf finds the claim of the node's instance; nil when there is none, or when the instance
// registers or goes on as another node.
func (r *NodeReconciler) claimOf(ctx context.Context, node *corev1.Node) (*karpv1.NodeClaim, error) {
	claims, err := lookup.ClaimsOf(ctx, r.Client, node)
	if err != nil || len(claims) == 0 {
		return nil, err
	}
	claim := &claims[0]
	nodes, err := lookup.NodesOfInstance(ctx, r.Client, claim.Status.ProviderID)
	if err != nil || claim.DeletionTimestamp == nil && leftOver(node, nodes, claim.Status.NodeName) {
		return nil, err
	}
	return claim, nil
}

// leftOver reports whether the instance runs as another of its Nodes, which is not being deleted.
func leftOver(node *corev1.Node, all []corev1.Node, claimed string) bool {
	staying := slices.DeleteFunc(all, func(n corev1.Node) bool { return n.DeletionTimestamp != nil && n.Name != node.Name })
	of := kube.NodeOfInstance(staying, claimed)
	return of != nil && of.Name != node.Name
}

func (r *NodeReconciler) finalize(ctx context.Context, node *corev1.Node, claim *karpv1.NodeClaim) (reconcile.Result, error) {
	if err := r.deleteClaim(ctx, claim); err != nil {
		return reconcile.Result{}, err
	}
	if gone, err := r.instanceGone(ctx, node); err != nil {
		return reconcile.Result{}, err
	} else if gone {
		return reconcile.Result{}, r.removeGoneNode(ctx, node)
	}
	if err := r.taintNode(ctx, node); err != nil {
		return reconcile.Result{}, err
	}
	for _, phase := range []func(context.Context, *corev1.Node, *karpv1.NodeClaim) (time.Duration, error){
		r.drain, r.awaitVolumes, r.terminate,
	} {
		if wait, err := phase(ctx, node, claim); err != nil || wait > 0 {
			return reconcile.Result{RequeueAfter: wait}, err
		}
	}
	if claim == nil {
		return reconcile.Result{}, r.removeFinalizer(ctx, node) // whether its instance runs is unknown
	}
	return reconcile.Result{}, r.removeGoneNode(ctx, node)
}

func (r *NodeReconciler) deleteClaim(ctx context.Context, claim *karpv1.NodeClaim) error {
	if claim == nil || claim.DeletionTimestamp != nil {
		return nil
	}
	if err := r.Client.Delete(ctx, claim); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting nodeclaim %s of a deleted node: %w", claim.Name, err)
	}
	return nil
}

// instanceGone reports whether there is nothing left to drain: the kubelet does not report, and
// the cloud does not have the instance.
func (r *NodeReconciler) instanceGone(ctx context.Context, node *corev1.Node) (bool, error) {
	if node.Spec.ProviderID == "" {
		return false, nil
	}
	if unresponsive, err := r.kubeletUnresponsive(ctx, node); err != nil || !unresponsive {
		return false, err
	}
	seen := r.observationOf(node)
	if time.Now().Before(seen.nextRead) {
		return false, nil
	}
	_, err := r.Provider.Get(ctx, node.Spec.ProviderID)
	if errors.Is(err, provider.ErrNotFound) {
		return true, nil
	}
	seen.postponeRead(time.Now())
	if err != nil {
		return false, fmt.Errorf("reading the instance of node %s: %w", node.Name, err)
	}
	return false, nil
}

// postponeRead makes reads of the instance twice as far apart each time: a cloud limits them, and hundreds
// of nodes may wait for pods that take long to end.
func (o *observation) postponeRead(now time.Time) {
	o.readDelay = min(max(2*o.readDelay, minReadDelay), maxReadDelay)
	o.nextRead = now.Add(o.readDelay)
}

// kubeletUnresponsive reports whether the kubelet stopped reporting, or left pods running
// that should have ended by now: the Ready condition may be most of a minute old.
func (r *NodeReconciler) kubeletUnresponsive(ctx context.Context, node *corev1.Node) (bool, error) {
	if !kube.Ready(node) {
		return true, nil
	}
	pods, err := lookup.PodsOn(ctx, r.Client, node.Name)
	if err != nil {
		return false, err
	}
	now := time.Now()
	return slices.ContainsFunc(pods, func(p *corev1.Pod) bool {
		return p.DeletionTimestamp != nil && now.After(p.DeletionTimestamp.Add(podStatusDelay)) && !kube.Terminal(p)
	}), nil
}

// removeGoneNode deletes the pods and the node of an instance that does not exist: the pods run
// nowhere, and controllers wait for their deletion before they replace them. The node is removed
// even if the deletion of a pod is refused: keeping the node would not keep the pod running.
func (r *NodeReconciler) removeGoneNode(ctx context.Context, node *corev1.Node) error {
	pods, err := lookup.PodsOn(ctx, r.Client, node.Name)
	if err != nil {
		return err
	}
	for _, p := range pods {
		err := r.Client.Delete(ctx, p, client.GracePeriodSeconds(0), client.Preconditions{UID: &p.UID})
		switch {
		case client.IgnoreNotFound(err) == nil || apierrors.IsConflict(err):
		case statusCode(err) != noStatusCode:
			r.Evictor.recordRefusal(p, deletion, err)
		default:
			return fmt.Errorf("deleting pod %s/%s of an instance that is gone: %w", p.Namespace, p.Name, err)
		}
	}
	return r.removeFinalizer(ctx, node)
}

// taintNode taints the node and excludes it from load balancers.
func (r *NodeReconciler) taintNode(ctx context.Context, node *corev1.Node) error {
	stored := node.DeepCopy()
	disrupted := karpv1.DisruptedNoScheduleTaint
	if !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&disrupted) }) {
		node.Spec.Taints = append(node.Spec.Taints, disrupted)
	}
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	node.Labels[labelExcludeBalancers] = "karpenter"
	if equality.Semantic.DeepEqual(stored, node) {
		return nil
	}
	patch := client.MergeFromWithOptions(stored, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, node, patch); err != nil {
		return fmt.Errorf("tainting node %s: %w", node.Name, err)
	}
	r.Log.Info("tainted node", "node", node.Name, "taint", karpv1.DisruptedTaintKey)
	return nil
}

// drain empties the node, group by group, and reports how long to wait; zero
// when it is done.
func (r *NodeReconciler) drain(ctx context.Context, node *corev1.Node, claim *karpv1.NodeClaim) (time.Duration, error) {
	if kube.ConditionTrue(claim, karpv1.ConditionTypeDrained) {
		return 0, nil
	}
	deadline := deadlineOf(claim)
	waiting, err := r.Evictor.Drain(ctx, node, deadline)
	if err != nil {
		return 0, err
	}
	var skipped []*corev1.Pod
	if len(waiting) == 0 {
		if waiting, skipped, err = r.uncachedPods(ctx, node, deadline); err != nil {
			return 0, err
		}
	}
	if len(waiting) > 0 {
		r.reportDraining(node, waiting)
		return drainPoll, r.patchClaimStatus(ctx, claim, func(c *karpv1.NodeClaim) {
			c.StatusConditions().SetUnknownWithReason(karpv1.ConditionTypeDrained, "Draining", fmt.Sprintf("%d pods waiting", len(waiting)))
		})
	}
	if left := lateBindingWindow - max(r.Clock.Since(node.DeletionTimestamp.Time), r.emptyFor(node)); left > 0 {
		return left, nil
	}
	if len(skipped) > 0 {
		return 0, r.reportSkippedPods(ctx, node, claim, skipped)
	}
	r.Metrics.NodesDrained.WithLabelValues(node.Labels[karpv1.NodePoolLabelKey]).Inc()
	return 0, r.patchClaimStatus(ctx, claim, func(c *karpv1.NodeClaim) {
		c.StatusConditions().SetTrueWithReason(karpv1.ConditionTypeDrained, "Drained", "")
	})
}

// emptyFor is how long ago a Node was first found without pods. It counts where the API server's clock
// has been set back since the deletion, which then seems to be yet to come.
func (r *NodeReconciler) emptyFor(node *corev1.Node) time.Duration {
	seen, now := r.observationOf(node), time.Now()
	if seen.empty.IsZero() {
		seen.empty = now
	}
	return now.Sub(seen.empty)
}

// uncachedPods reads the node's pods past the cache, which may lack some. It separates the pods
// that the node waits for from the pods that it does not wait for.
func (r *NodeReconciler) uncachedPods(ctx context.Context, node *corev1.Node, deadline time.Time) (waiting, skipped []*corev1.Pod, err error) {
	pods, err := lookup.PodsOn(ctx, r.Live, node.Name)
	if err != nil {
		return nil, nil, err
	}
	_, all := groupByOrder(pods, time.Now())
	waiting, skipped = r.Evictor.splitUndeletable(all, deadline)
	return waiting, skipped, nil
}

// reportSkippedPods reports which pods the node does not wait for any more.
func (r *NodeReconciler) reportSkippedPods(ctx context.Context, node *corev1.Node, claim *karpv1.NodeClaim, pods []*corev1.Pod) error {
	names, _ := r.Evictor.DescribeWaiting(pods)
	text := fmt.Sprintf("The node is terminated before %d pods have ended: %s", len(pods), names)
	r.Events.Publish(events.Event{About: node, Warning: true, Reason: reasonElapsed, Key: "drain", Message: text})
	return r.patchClaimStatus(ctx, claim, func(c *karpv1.NodeClaim) {
		c.StatusConditions().SetFalse(karpv1.ConditionTypeDrained, reasonElapsed, text)
	})
}

func (r *NodeReconciler) reportDraining(node *corev1.Node, waiting []*corev1.Pod) {
	names, key := r.Evictor.DescribeWaiting(waiting)
	r.Events.Publish(events.Event{About: node, Warning: true, Reason: "FailedDraining", Key: key,
		Message: fmt.Sprintf("Failed to drain node, %d pods are waiting to be evicted: %s", len(waiting), names)})
}

// patchClaimStatus changes the claim's status; a node without a claim has none.
func (r *NodeReconciler) patchClaimStatus(ctx context.Context, claim *karpv1.NodeClaim, change func(*karpv1.NodeClaim)) error {
	if claim == nil {
		return nil
	}
	return patchStatus(ctx, r.Client, claim, func() { change(claim) })
}

// deadlineOf returns when pods are deleted whatever protects them, zero when never.
func deadlineOf(claim *karpv1.NodeClaim) time.Time {
	if claim == nil {
		return time.Time{}
	}
	if t, err := time.Parse(time.RFC3339, claim.Annotations[karpv1.NodeClaimTerminationTimestampAnnotationKey]); err == nil {
		return t
	}
	if claim.DeletionTimestamp != nil && claim.Spec.TerminationGracePeriod != nil {
		return claim.DeletionTimestamp.Add(claim.Spec.TerminationGracePeriod.Duration)
	}
	return time.Time{}
}

// awaitVolumes lets the attach controller detach the volumes of drained pods: a disk
// still attached to a deleted instance cannot be used elsewhere for minutes.
func (r *NodeReconciler) awaitVolumes(ctx context.Context, node *corev1.Node, claim *karpv1.NodeClaim) (time.Duration, error) {
	if kube.ConditionTrue(claim, karpv1.ConditionTypeVolumesDetached) {
		return 0, nil
	}
	attached, err := r.attachments(ctx, node)
	if err != nil {
		return 0, err
	}
	if len(attached) == 0 {
		return 0, r.patchClaimStatus(ctx, claim, func(c *karpv1.NodeClaim) {
			c.StatusConditions().SetTrue(karpv1.ConditionTypeVolumesDetached)
		})
	}
	if deadline := deadlineOf(claim); !deadline.IsZero() && !time.Now().Before(deadline) {
		return 0, r.patchClaimStatus(ctx, claim, func(c *karpv1.NodeClaim) {
			c.StatusConditions().SetFalse(karpv1.ConditionTypeVolumesDetached, reasonElapsed, "")
		})
	}
	r.Events.Publish(events.Event{About: node, Reason: "AwaitingVolumeDetachment", Key: "volumes",
		Message: fmt.Sprintf("Awaiting detachment of volumes: %v", attached)})
	return drainPoll, r.patchClaimStatus(ctx, claim, func(c *karpv1.NodeClaim) {
		c.StatusConditions().SetUnknownWithReason(karpv1.ConditionTypeVolumesDetached, "AwaitingVolumeDetachment",
			fmt.Sprintf("%d volumes attached", len(attached)))
	})
}

// attachments names the node's volume attachments, except for volumes still used by pods that are
// never drained.
func (r *NodeReconciler) attachments(ctx context.Context, node *corev1.Node) ([]string, error) {
	list := &storagev1.VolumeAttachmentList{}
	if err := r.Client.List(ctx, list, client.MatchingFields{kube.IndexAttachmentNode: node.Name}); err != nil {
		return nil, fmt.Errorf("listing the volume attachments of node %s: %w", node.Name, err)
	}
	if len(list.Items) == 0 {
		return nil, nil
	}
	kept, err := r.volumesInUse(ctx, node)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, a := range list.Items {
		if pv := a.Spec.Source.PersistentVolumeName; pv == nil || !kept[*pv] {
			names = append(names, a.Name)
		}
	}
	return names, nil
}

func (r *NodeReconciler) volumesInUse(ctx context.Context, node *corev1.Node) (map[string]bool, error) {
	pods, err := lookup.PodsOn(ctx, r.Client, node.Name)
	if err != nil {
		return nil, err
	}
	inUse := map[string]bool{}
	for _, p := range pods {
		if drainable(p, time.Now()) {
			continue
		}
		for _, v := range p.Spec.Volumes {
			if v.PersistentVolumeClaim == nil {
				continue
			}
			pvc := &corev1.PersistentVolumeClaim{}
			key := client.ObjectKey{Namespace: p.Namespace, Name: v.PersistentVolumeClaim.ClaimName}
			if err := r.Live.Get(ctx, key, pvc); client.IgnoreNotFound(err) != nil {
				return nil, fmt.Errorf("reading volume claim %s: %w", key, err)
			}
			inUse[pvc.Spec.VolumeName] = true
		}
	}
	return inUse, nil
}

// terminate terminates the instance and waits until it is deleted: the kubelet of a running
// instance would register its node again.
func (r *NodeReconciler) terminate(ctx context.Context, node *corev1.Node, claim *karpv1.NodeClaim) (time.Duration, error) {
	if node.Spec.ProviderID == "" || claim == nil {
		return 0, nil
	}
	err := r.Provider.Terminate(ctx, node.Spec.ProviderID)
	if errors.Is(err, provider.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		err = fmt.Errorf("terminating the instance of node %s: %w", node.Name, err)
		return 0, errors.Join(err, reportFailure(ctx, r.Client, r.Events, claim, err))
	}
	return terminationPoll, r.patchClaimStatus(ctx, claim, func(c *karpv1.NodeClaim) {
		c.StatusConditions().SetTrue(karpv1.ConditionTypeInstanceTerminating)
	})
}

func (r *NodeReconciler) removeFinalizer(ctx context.Context, node *corev1.Node) error {
	stored := node.DeepCopy()
	controllerutil.RemoveFinalizer(node, karpv1.TerminationFinalizer)
	patch := client.MergeFromWithOptions(stored, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, node, patch); err != nil {
		return client.IgnoreNotFound(err)
	}
	r.observations.Delete(node.Name)
	pool := stored.Labels[karpv1.NodePoolLabelKey]
	r.Metrics.NodesTerminated.WithLabelValues(pool, stored.Labels[corev1.LabelTopologyZone]).Inc()
	r.Metrics.NodeTermination.WithLabelValues(pool).Observe(time.Since(stored.DeletionTimestamp.Time).Seconds())
	r.Metrics.NodeLifetime.WithLabelValues(pool).Observe(time.Since(stored.CreationTimestamp.Time).Seconds())
	r.Log.Info("deleted node", "node", stored.Name)
	return nil
}
