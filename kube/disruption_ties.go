package kube

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/engine/reason"
)

// tie notes that a Node says which machine it is.
func (m *Mirror) tie(n *corev1.Node) {
	if id := n.Spec.ProviderID; id != "" {
		set(m.nodesOf, id, n.Name)
		m.elect(id)
	}
}

// untie forgets it.
func (m *Mirror) untie(name, id string) {
	if id != "" {
		unset(m.nodesOf, id, name)
		m.elect(id)
	}
}

// elect decides which Node the machine is: the youngest of those that say so, since one
// under another name may be left over. Among equals it is the first by name.
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

// severalNodes blocks a machine that several Nodes say they are: which pods run there
// cannot be told.
func severalNodes(m Machine) []disrupt.Block {
	if m.Nodes < 2 {
		return nil
	}
	return []disrupt.Block{{Because: disrupt.SeveralNodes, Facts: reason.FactsOf(map[string]any{"nodes": m.Nodes}),
		Detail: fmt.Sprintf("%d Nodes have the provider ID of the NodeClaim; those that are left over must be deleted", m.Nodes)}}
}
