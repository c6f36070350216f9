package kube

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/cluster"
)

// Machine is a NodeClaim with its Node and the pods there.
type Machine struct {
	Claim *karpv1.NodeClaim
	Node  *corev1.Node // nil until there is one
	// Nodes counts the Nodes that have the claim's provider ID. There should be one; if there are
	// several, Node is the youngest.
	Nodes int
	Pods  []*corev1.Pod
	// World is the node as the engine sees it.
	World cluster.Node
	// Promised counts the pods that were promised capacity here and are not bound yet.
	Promised int
	// KnownType is set when the node's instance type is in the catalog of its node class.
	KnownType bool
	// Activity is when a pod last arrived or left, as far as this process saw; zero when it saw
	// none.
	Activity time.Time
}

// Machines lists every NodeClaim, by name. The objects are shared and must not be changed.
func (m *Mirror) Machines() []Machine {
	m.lock()
	defer m.mu.Unlock()
	out := make([]Machine, 0, len(m.claims))
	for _, c := range m.claims {
		out = append(out, m.machine(c))
	}
	slices.SortFunc(out, func(a, b Machine) int { return strings.Compare(a.Claim.Name, b.Claim.Name) })
	return out
}

func (m *Mirror) machine(c *karpv1.NodeClaim) Machine {
	x := Machine{Claim: c, World: m.worldNodes[c.Name], Promised: len(m.promised[c.Name])}
	x.KnownType = m.catalogs[ClassOf(c.Spec.NodeClassRef)].find(x.World.Labels[cluster.LabelInstanceType]) != nil
	if c.Status.ProviderID == "" {
		return x
	}
	if x.Node = m.nodes[m.nodeOf[c.Status.ProviderID]]; x.Node == nil {
		return x
	}
	x.Nodes = len(m.nodesOf[c.Status.ProviderID])
	x.Pods = make([]*corev1.Pod, 0, len(m.podsOn[x.Node.Name]))
	for uid := range m.podsOn[x.Node.Name] {
		x.Pods = append(x.Pods, m.pods[uid])
	}
	x.Activity = m.activity[x.Node.Name]
	return x
}
