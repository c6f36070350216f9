package kube

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/engine/reason"
)

// tie records the Node for its provider ID.
func (m *Mirror) tie(n *corev1.Node) {
	if id := n.Spec.ProviderID; id != "" {
		set(m.nodesOf, id, n.Name)
		m.elect(id)
	}
}

// untie removes that record.
func (m *Mirror) untie(name, id string) {
	if id != "" {
		unset(m.nodesOf, id, name)
		m.elect(id)
	}
}

// elect chooses the Node for a provider ID: the youngest of those that have it, since a Node of
// another name may be left over. Among Nodes of the same age it is the first by name.
func (m *Mirror) elect(id string) {
	var best *corev1.Node
	for name := range m.nodesOf[id] {
		if n := m.nodes[name]; best == nil || younger(n, best) {
			best = n
		}
	}
	if best == nil {
		delete(m.nodeOf, id)
		return
	}
	m.nodeOf[id] = best.Name
}

func younger(a, b *corev1.Node) bool {
	return cmp.Or(b.CreationTimestamp.Time.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name)) < 0
}

// severalNodes blocks disruption of a NodeClaim whose provider ID several Nodes have: it is not
// known which pods run there.
func severalNodes(m Machine) []disrupt.Block {
	if m.Nodes < 2 {
		return nil
	}
	return []disrupt.Block{{Because: disrupt.SeveralNodes, Facts: reason.FactsOf(map[string]any{"nodes": m.Nodes}),
		Detail: fmt.Sprintf("%d Nodes have the provider ID of the NodeClaim; those that are left over must be deleted", m.Nodes)}}
}
