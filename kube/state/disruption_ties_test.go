// SPDX-License-Identifier: Apache-2.0

package state

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/kube"
)

// Of several Nodes with one provider ID the youngest counts, in whatever order they are added
// and deleted. While there are several, the node is not disrupted.
//
// Rule BLOCK-6.
func TestSeveralNodesOfOneClaim(t *testing.T) {
	m := NewMirror(nil)
	claim, old := joined(claimNamed("a"))
	old.CreationTimestamp = metav1.NewTime(noon)
	young := old.DeepCopy()
	young.Name, young.CreationTimestamp = "another", metav1.NewTime(noon.Add(time.Minute))
	m.SetClaim(claim)
	expect := func(step, node string, blocked bool) {
		t.Helper()
		x, _ := m.ManagedNode("a")
		n := disrupt.Node{}
		if x.Node != nil {
			n = kube.DisruptionNode(x, m.PDBs(), kube.Stays{Lifetimes: m.Lifetimes(), Expected: 2 * time.Hour}, false, noon)
		}
		if n.Name != node || node != "" && x.InSnapshot.Name != node || (len(n.Blocks) > 0) != blocked {
			t.Errorf("%s: node %q (%q for decisions), blocks %v; want %q, blocked: %t", step, n.Name, x.InSnapshot.Name, n.Blocks, node, blocked)
		}
		if blocked && n.Blocks[0].Because != disrupt.DuplicateNodes {
			t.Errorf("%s: %v", step, n.Blocks)
		}
	}
	m.SetNode(young)
	expect("one", "another", false)
	m.SetNode(old)
	expect("two", "another", true)
	m.RemoveNode(young)
	expect("the youngest gone", old.Name, false)
	m.SetNode(young)
	expect("the youngest back", "another", true)
	other := young.DeepCopy()
	other.Spec.ProviderID = "id-of-something-else"
	m.SetNode(other)
	expect("another instance after all", old.Name, false)
	m.RemoveNode(old)
	expect("none", "", false)
}
