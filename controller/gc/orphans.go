// SPDX-License-Identifier: Apache-2.0

package gc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/events"
	"github.com/karve-dev/karve/controller/lookup"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/provider"
)

// orphan is an instance that belongs to no claim.
type orphan struct {
	instance provider.Instance
	node     *corev1.Node // nil when the API has none
	// ownedBefore is set when an earlier round saw the instance with a claim or a Node of this
	// cluster.
	ownedBefore bool
}

func (o orphan) id() string { return strings.ToLower(o.instance.ProviderID) }

// mayRunPods reports whether the instance may run pods: its Node is ready, or was until recently.
func (o orphan) mayRunPods() bool {
	return o.node != nil && (kube.Ready(o.node) || time.Since(notReadySince(o.node)) < confirmAfter)
}

// runsNothing reports whether the instance runs no pods of this cluster any more. An instance that
// never had a Node in this cluster may run pods of another one.
func (o orphan) runsNothing() bool { return !o.mayRunPods() && (o.node != nil || o.ownedBefore) }

// notReadySince returns when the node's Ready condition last changed.
func notReadySince(node *corev1.Node) time.Time {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.LastTransitionTime.Time
		}
	}
	return node.CreationTimestamp.Time
}

// removeOrphans terminates instances that belong to no claim, unless the claims may be lost.
// Instances that are being deleted are terminated again: a deletion can get stuck, and nothing
// else repeats it for them.
func (c *Collector) removeOrphans(ctx context.Context, instances []provider.Instance, claims []*karpv1.NodeClaim) error {
	orphans, ended, err := c.orphans(ctx, instances, claims)
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range ended {
		errs = append(errs, c.terminateInstance(ctx, m))
	}
	terminable, lostErr := c.approveOrphans(ctx, orphans, len(instances)-len(ended))
	c.setHalted(errors.Is(lostErr, errClaimsLost))
	for _, o := range terminable {
		errs = append(errs, c.removeOrphan(ctx, o))
	}
	c.forgetFormerOrphans(orphans)
	if lostErr == nil { // while claims may be lost, resources without one may belong to them
		errs = append(errs, c.collectResources(ctx, claims))
	}
	return errors.Join(append(errs, lostErr)...)
}

// orphans lists the instances that belong to no claim. Those that can run no pods are returned
// in ended: they are no sign of lost claims. A very young instance is in neither list,
// since its claim may not be in the cache yet.
func (c *Collector) orphans(ctx context.Context, instances []provider.Instance, claims []*karpv1.NodeClaim) (orphans []orphan, ended []provider.Instance, err error) {
	owned, ids, seen := uids(claims), providerIDs(claims), map[string]bool{}
	for _, m := range instances {
		o := orphan{instance: m}
		if o.ownedBefore = c.ownedBefore[o.id()]; owned[m.ClaimUID] || ids[o.id()] {
			seen[o.id()] = true
			continue
		}
		if o.node, err = c.nodeOf(ctx, m); err != nil {
			return nil, nil, err
		}
		seen[o.id()] = o.ownedBefore || o.node != nil
		switch {
		case time.Since(m.Created) < orElse(c.Grace, time.Minute):
		case m.State == provider.Terminating, m.State.Lost() && !o.mayRunPods():
			ended = append(ended, m)
		default:
			orphans = append(orphans, o)
		}
	}
	c.ownedBefore = seen
	return orphans, ended, nil
}

// nodeOf finds an instance's Node by its provider ID and the name that it was to register under, or by
// the name alone.
func (c *Collector) nodeOf(ctx context.Context, m provider.Instance) (*corev1.Node, error) {
	of := &karpv1.NodeClaim{Status: karpv1.NodeClaimStatus{ProviderID: m.ProviderID, NodeName: m.NodeName}}
	nodes, err := lookup.NodesOf(ctx, c.Client, of)
	if err != nil {
		return nil, err
	}
	if len(nodes) > 0 {
		return &nodes[0], nil
	}
	node := &corev1.Node{}
	if err := c.Client.Get(ctx, client.ObjectKey{Name: m.NodeName}, node); err != nil {
		if m.NodeName == "" || apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("reading the node of instance %s: %w", m.Name, err)
	}
	return node, nil
}

// removeOrphan terminates an instance. One that runs pods is drained first.
func (c *Collector) removeOrphan(ctx context.Context, o orphan) error {
	if !o.mayRunPods() || c.confirmed[o.id()] {
		return c.terminateInstance(ctx, o.instance)
	}
	runs, err := c.runsPods(ctx, o.node)
	if err != nil {
		return err
	}
	if !runs {
		return c.terminateInstance(ctx, o.instance)
	}
	return c.drain(ctx, o)
}

// runsPods reports whether a node runs pods that would need another node.
func (c *Collector) runsPods(ctx context.Context, node *corev1.Node) (bool, error) {
	pods, err := lookup.PodsOn(ctx, c.Client, node.Name)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(pods, func(p *corev1.Pod) bool {
		return !kube.Terminal(p) && !kube.OwnedByNode(p) && !kube.OwnedByDaemonSet(p)
	}), nil
}

// drain deletes the Node of an orphan so that it is drained, once its claim has been missing for
// long enough. Once the Node is deleted the instance runs no pods and is terminated like others.
func (c *Collector) drain(ctx context.Context, o orphan) error {
	if c.orphanedSince == nil {
		c.orphanedSince = map[string]time.Time{}
	}
	if c.orphanedSince[o.id()].IsZero() {
		c.orphanedSince[o.id()] = time.Now()
	}
	c.Events.Publish(events.Event{About: o.node, Warning: true, Reason: "NodeClaimMissing", Key: "drain", Every: confirmAfter,
		Message: fmt.Sprintf("The NodeClaim %s of this node does not exist. Restore it to keep the node; "+
			"otherwise the node is drained ten minutes after its NodeClaim was first missed, and its instance terminated", o.instance.ClaimName)})
	if time.Since(c.orphanedSince[o.id()]) < confirmAfter || o.node.DeletionTimestamp != nil || c.Pause.Why() != "" {
		return nil
	}
	if claimed, err := c.hasClaim(ctx, o.instance); claimed || err != nil {
		return err
	}
	return c.deleteNode(ctx, o.node)
}

// deleteNode deletes a node with the finalizer that has it drained.
func (c *Collector) deleteNode(ctx context.Context, node *corev1.Node) error {
	stored := node.DeepCopy()
	if controllerutil.AddFinalizer(node, karpv1.TerminationFinalizer) {
		if err := c.Client.Patch(ctx, node, client.MergeFromWithOptions(stored, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("preparing node %s, which has no nodeclaim, for its drain: %w", stored.Name, err)
		}
	}
	if err := c.Client.Delete(ctx, node, client.Preconditions{UID: &stored.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting node %s, which has no nodeclaim: %w", stored.Name, err)
	}
	c.Log.Info("draining node without a nodeclaim", "node", stored.Name, "provider-id", stored.Spec.ProviderID)
	return nil
}

// forgetFormerOrphans drops the records of instances that are no longer orphans.
func (c *Collector) forgetFormerOrphans(orphans []orphan) {
	for id := range c.orphanedSince {
		if !slices.ContainsFunc(orphans, func(o orphan) bool { return o.id() == id }) {
			delete(c.orphanedSince, id)
		}
	}
}

// terminateInstance terminates an instance unless the API has a claim of it.
func (c *Collector) terminateInstance(ctx context.Context, m provider.Instance) error {
	if claimed, err := c.hasClaim(ctx, m); claimed || err != nil {
		return err
	}
	if err := c.Provider.Terminate(ctx, m.ProviderID); err != nil && !errors.Is(err, provider.ErrNotFound) {
		return fmt.Errorf("terminating instance %s, which belongs to no nodeclaim: %w", m.Name, err)
	}
	if m.State == provider.Terminating {
		return nil // logged when it was first terminated
	}
	c.Log.Info("garbage collecting instance without a nodeclaim", "instance", m.Name, "provider-id", m.ProviderID, "nodeclaim", m.ClaimName)
	return nil
}

// hasClaim reads past the cache, which may be stale, whether the instance has a claim. An
// instance without a recorded claim UID belongs to any claim of the recorded name.
func (c *Collector) hasClaim(ctx context.Context, m provider.Instance) (bool, error) {
	claim := &karpv1.NodeClaim{}
	err := c.Live.Get(ctx, client.ObjectKey{Name: m.ClaimName}, claim)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("checking that instance %s belongs to no nodeclaim: %w", m.Name, err)
	}
	return err == nil && (m.ClaimUID == "" || string(claim.UID) == m.ClaimUID), nil
}
