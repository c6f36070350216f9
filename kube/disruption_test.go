// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"testing"

	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/kube"
)

// TestForEachNode: the nodes keep their order.
func TestForEachNode(t *testing.T) {
	nodes := make([]kube.ManagedNode, 1000)
	for i := range nodes {
		nodes[i].Nodes = i
	}
	converted := kube.ForEachNode(nodes, func(m kube.ManagedNode) disrupt.Node { return disrupt.Node{Pods: m.Nodes} })
	if len(converted) != len(nodes) {
		t.Fatalf("%d nodes, want %d", len(converted), len(nodes))
	}
	for i, n := range converted {
		if n.Pods != i {
			t.Fatalf("node %d is where node %d should be", n.Pods, i)
		}
	}
}
