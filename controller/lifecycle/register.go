// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/events"
	"github.com/karve-dev/karve/controller/lookup"
	"github.com/karve-dev/karve/controller/registrationhealth"
	"github.com/karve-dev/karve/kube"
)

// register waits for the instance's Node and links it to the claim.
func (s *pass) register(ctx context.Context) error {
	if s.claim.Status.ProviderID == "" || !kube.ConditionTrue(s.claim, karpv1.ConditionTypeLaunched) {
		return nil
	}
	if err := s.findNode(ctx); err != nil {
		return err
	}
	s.reportContradictions()
	// If the Node was deleted from outside and its kubelet created it again, it is registered
	// again.
	if s.node == nil || kube.ConditionTrue(s.claim, karpv1.ConditionTypeRegistered) && isRegistered(s.node) {
		return nil
	}
	if err := s.syncNode(ctx); err != nil {
		return err
	}
	first := !kube.ConditionTrue(s.claim, karpv1.ConditionTypeRegistered)
	s.claim.Status.NodeName = s.node.Name
	s.StatusConditions().SetTrue(karpv1.ConditionTypeRegistered)
	s.afterSave = append(s.afterSave, func() {
		s.stage("registered")
		if first {
			s.Health.Record(s.claim.OwnerReferences, registrationhealth.Outcome{})
		}
		s.Metrics.NodesCreated.WithLabelValues(s.claim.Labels[karpv1.NodePoolLabelKey], s.node.Labels[corev1.LabelTopologyZone]).Inc()
		s.Log.Info("registered nodeclaim", "nodeclaim", s.claim.Name, "provider-id", s.claim.Status.ProviderID, "node", s.node.Name)
	})
	return nil
}

// findNode sets s.node when exactly one Node is that of the instance, and otherwise says in the condition
// Registered why not.
func (s *pass) findNode(ctx context.Context) error {
	if s.node != nil || s.claim.Status.ProviderID == "" {
		return nil
	}
	nodes, err := lookup.NodesOfInstance(ctx, s.Client, s.claim.Status.ProviderID)
	if err != nil {
		return fmt.Errorf("looking for the nodes of nodeclaim %s: %w", s.claim.Name, err)
	}
	own, reason, message := s.ownNodes(nodes)
	switch {
	case len(own) == 1:
		s.node = own[0]
	case len(own) > 1:
		s.notRegistered(metav1.ConditionFalse, "MultipleNodesFound",
			fmt.Sprintf("%d nodes have provider ID %s: delete all but one", len(own), s.claim.Status.ProviderID))
	default:
		s.notRegistered(metav1.ConditionUnknown, reason, message)
	}
	return nil
}

// ownNodes returns those of the Nodes with the instance's provider ID that are the claim's. If there is
// none, reason and message say why for the condition Registered.
func (s *pass) ownNodes(nodes []corev1.Node) (own []*corev1.Node, reason, message string) {
	reason, message = "NodeNotFound", "Node not registered with cluster"
	for i := range nodes {
		n := &nodes[i]
		switch {
		case !kube.IsNodeOf(n, s.claim):
			why := "the instance registers as " + s.claim.Status.NodeName
			s.refuseNode(n, refusedName, why)
			reason, message = "NodeNameMismatch", fmt.Sprintf("Node %s has the provider ID of the instance, and %s", n.Name, why)
		case !kube.ConditionTrue(s.claim, karpv1.ConditionTypeRegistered) && n.CreationTimestamp.Before(&s.claim.CreationTimestamp):
			why := "it is older than the NodeClaim, and with that than the instance"
			s.refuseNode(n, refusedAge, why)
			reason, message = "NodeOlderThanClaim", fmt.Sprintf("Node %s has the provider ID of the instance, but %s", n.Name, why)
		default:
			own = append(own, n)
		}
	}
	return own, reason, message
}

func (s *pass) notRegistered(status metav1.ConditionStatus, reason, message string) {
	switch {
	case kube.ConditionTrue(s.claim, karpv1.ConditionTypeRegistered):
		// The interruption controller handles a lost node.
	case status == metav1.ConditionFalse:
		s.StatusConditions().SetFalse(karpv1.ConditionTypeRegistered, reason, message)
	default:
		s.StatusConditions().SetUnknownWithReason(karpv1.ConditionTypeRegistered, reason, message)
	}
}

// syncNode copies the claim's labels, annotations and taints to the Node, and removes the taint
// that keeps pods away.
func (s *pass) syncNode(ctx context.Context) error {
	stored := s.node.DeepCopy()
	if !hasUnregisteredTaint(s.node) && !isRegistered(s.node) {
		s.Events.Publish(events.Event{About: s.claim, Warning: true, Reason: "UnregisteredTaintMissing",
			Message: fmt.Sprintf("Missing karpenter.sh/unregistered taint on node %s: pods may have landed there before it was ready", s.node.Name)})
	}
	applyClaim(s.node, s.claim)
	if equality.Semantic.DeepEqual(stored, s.node) {
		return nil
	}
	patch := client.MergeFromWithOptions(stored, client.MergeFromWithOptimisticLock{})
	if err := s.Client.Patch(ctx, s.node, patch); err != nil {
		return fmt.Errorf("registering node %s: %w", stored.Name, err)
	}
	return nil
}

func isRegistered(n *corev1.Node) bool { return n.Labels[karpv1.NodeRegisteredLabelKey] == "true" }

// applyClaim adds the claim's metadata and taints to the node. Startup taints are added once, and not
// at all if the kubelet registers with them: they may already have been removed. The other taints are
// added whatever the Node's labels say: a kubelet could leave them out to get pods that do not tolerate
// them.
func applyClaim(n *corev1.Node, claim *karpv1.NodeClaim) {
	controllerutil.AddFinalizer(n, karpv1.TerminationFinalizer)
	n.OwnerReferences = withOwner(n.OwnerReferences, claim)
	n.Labels = merged(n.Labels, claim.Labels)
	n.Annotations = merged(n.Annotations, claim.Annotations)
	n.Spec.Taints = withTaints(n.Spec.Taints, claim.Spec.Taints)
	if n.Labels[karpv1.NodeDoNotSyncTaintsLabelKey] != "true" && !isRegistered(n) {
		n.Spec.Taints = withTaints(n.Spec.Taints, claim.Spec.StartupTaints)
	}
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == karpv1.UnregisteredTaintKey })
	n.Labels[karpv1.NodeRegisteredLabelKey] = "true"
}

func withOwner(owners []metav1.OwnerReference, claim *karpv1.NodeClaim) []metav1.OwnerReference {
	block := true
	ref := metav1.OwnerReference{
		APIVersion: "karpenter.sh/v1", Kind: "NodeClaim", Name: claim.Name, UID: claim.UID, BlockOwnerDeletion: &block,
	}
	for _, o := range owners {
		if o.UID == ref.UID {
			return owners
		}
	}
	return append(owners, ref)
}

func merged(base, over map[string]string) map[string]string {
	out := maps.Clone(base)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, over)
	return out
}

func withTaints(have, want []corev1.Taint) []corev1.Taint {
	for _, t := range want {
		if !slices.ContainsFunc(have, func(x corev1.Taint) bool { return x.MatchTaint(&t) }) {
			have = append(have, t)
		}
	}
	return have
}

func hasUnregisteredTaint(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == karpv1.UnregisteredTaintKey })
}
