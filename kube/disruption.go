// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/engine/reason"
)

// ManagedNode is a NodeClaim with its Node and the pods there.
type ManagedNode struct {
	Claim *karpv1.NodeClaim
	Node  *corev1.Node // nil until there is one
	// Nodes counts the Nodes that have the claim's provider ID. There should be one; if there are
	// several, Node is the youngest.
	Nodes int
	Pods  []*corev1.Pod
	// InSnapshot is the node as decisions see it; the zero Node when the snapshot lacks it.
	InSnapshot cluster.Node
	// Nominated counts the pods that are nominated to the node and not bound yet.
	Nominated int
	// KnownType is set when the node's instance type is in the catalog of its node class.
	KnownType bool
	// Activity is when a pod last arrived or left, as far as this process saw; zero when it saw
	// none.
	Activity time.Time
}

// DisruptionNode is a node as decisions about nodes see it at a given moment. soft says that
// the node's pool replaces expired nodes within budgets, like drifted ones (see SoftExpiry).
// HasBufferCapacity is left unset: it depends on capacity buffers.
func DisruptionNode(m ManagedNode, checker EvictionChecker, stays Stays, soft bool, now time.Time) disrupt.Node {
	n := disrupt.Node{
		Key:                       m.Claim.Name,
		Pool:                      m.InSnapshot.Pool,
		Created:                   m.Claim.CreationTimestamp.Time,
		MarkedForDeletion:         m.InSnapshot.MarkedForDeletion,
		Terminating:               ConditionTrue(m.Claim, karpv1.ConditionTypeInstanceTerminating),
		Initialized:               initializedAt(m),
		LastPodEvent:              quietSince(m),
		HasTerminationGracePeriod: m.Claim.Spec.TerminationGracePeriod != nil,
		PriceUnknownDetail:        unpriced(m),
	}
	n.Nominated = m.Nominated > 0
	if now.Before(m.InSnapshot.NominatedUntil) {
		n.Nominated, n.NominatedUntil = true, m.InSnapshot.NominatedUntil
	}
	if life := m.Claim.Spec.ExpireAfter.Duration; life != nil {
		n.ExpireAfter = *life
	}
	n.Due = DueCauses(m.Claim, soft, now)
	if m.Node == nil {
		return n
	}
	n.Name, n.Ready = m.Node.Name, Ready(m.Node)
	pods := summarize(m.Pods, checker, stays, now)
	n.Pods, n.EvictionCost, n.PDBs = pods.reschedulable, pods.cost, pods.pdbs
	pods.shortStays.read(&n)
	n.Blocks = append(append(severalNodes(m), ownBlocks(m.Node)...), pods.blocks()...)
	return n
}

// initializedAt is when the node was initialized, zero while it is not. If the node is
// initialized and its claim lacks the condition, it is the Node's creation time.
func initializedAt(m ManagedNode) time.Time {
	if !m.InSnapshot.Initialized {
		return time.Time{}
	}
	if at := since(m.Claim, karpv1.ConditionTypeInitialized); !at.IsZero() {
		return at
	}
	if at := m.Node.CreationTimestamp.Time; !at.IsZero() {
		return at
	}
	return time.Unix(0, 0)
}

// since is when a condition of the claim became True, zero when it is not.
func since(c *karpv1.NodeClaim, conditionType string) time.Time {
	for i := range c.Status.Conditions {
		condition := &c.Status.Conditions[i]
		if condition.Type == conditionType && condition.Status == "True" {
			return condition.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// quietSince is the later of the node's initialization and its last pod event, seen by this
// process or recorded by an earlier one.
func quietSince(m ManagedNode) time.Time {
	latest := m.Activity
	for _, t := range []time.Time{m.Claim.Status.LastPodEventTime.Time, initializedAt(m)} {
		if t.After(latest) {
			latest = t
		}
	}
	return latest
}

// unpriced says why the price of a node is not known.
func unpriced(m ManagedNode) string {
	if m.InSnapshot.Price > 0 || m.Node == nil {
		return ""
	}
	for _, key := range []string{cluster.LabelInstanceType, cluster.LabelCapacityType, cluster.LabelZone} {
		if m.InSnapshot.Labels[key] == "" {
			return fmt.Sprintf("Node does not have label %q", key)
		}
	}
	if !m.KnownType {
		return fmt.Sprintf("Instance Type %q not found", m.InSnapshot.Labels[cluster.LabelInstanceType])
	}
	return fmt.Sprintf("Instance Type %q has no price in zone %q as %s", m.InSnapshot.Labels[cluster.LabelInstanceType],
		m.InSnapshot.Labels[cluster.LabelZone], m.InSnapshot.Labels[cluster.LabelCapacityType])
}

// severalNodes blocks disruption of a NodeClaim whose provider ID several Nodes have: it is not
// known which pods run there.
func severalNodes(m ManagedNode) []disrupt.Block {
	if m.Nodes < 2 {
		return nil
	}
	return []disrupt.Block{{Because: disrupt.DuplicateNodes, Facts: reason.FactsOf(map[string]any{"nodes": m.Nodes}),
		Detail: fmt.Sprintf("%d Nodes have the provider ID of the NodeClaim; those that are left over must be deleted", m.Nodes)}}
}

// ownBlocks is the block that the node's own annotation sets.
func ownBlocks(n *corev1.Node) []disrupt.Block {
	if n.Annotations[karpv1.DoNotDisruptAnnotationKey] != "true" {
		return nil
	}
	return []disrupt.Block{{Because: disrupt.DoNotDisrupt,
		Detail: `Disruption is blocked through the "karpenter.sh/do-not-disrupt" annotation`}}
}
