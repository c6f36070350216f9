// SPDX-License-Identifier: Apache-2.0

package state

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/karve-dev/karve/kube"
)

// A Node that another machine's kubelet created with the provider ID of a VM changes nothing that
// decisions see of the VM's node, in whatever order the objects arrive, and it blocks no disruption.
//
// Rules LAUNCH-16, BLOCK-6.
func TestNodeOfAnotherNameChangesNothing(t *testing.T) {
	claim, node := joined(claimNamed("a"))
	claim.Status.NodeName = node.Name
	node.CreationTimestamp = metav1.NewTime(noon)
	rogue := node.DeepCopy()
	rogue.Name, rogue.CreationTimestamp = "rogue", metav1.NewTime(noon.Add(time.Minute))
	rogue.Status.Allocatable = resources("cpu", "9999", "pods", "9999")
	alone := NewMirror(nil)
	alone.SetClaim(claim)
	alone.SetNode(node)
	for name, show := range map[string]func(m *Mirror){
		"last":       func(m *Mirror) { m.SetClaim(claim); m.SetNode(node); m.SetNode(rogue) },
		"first":      func(m *Mirror) { m.SetNode(rogue); m.SetClaim(claim); m.SetNode(node) },
		"in between": func(m *Mirror) { m.SetNode(node); m.SetNode(rogue); m.SetClaim(claim) },
		"and gone":   func(m *Mirror) { m.SetClaim(claim); m.SetNode(node); m.SetNode(rogue); m.RemoveNode(rogue) },
	} {
		m := NewMirror(nil)
		show(m)
		if diff := cmp.Diff(alone.parts.builder.nodes, m.parts.builder.nodes); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		x, _ := m.ManagedNode("a")
		n := kube.DisruptionNode(x, m.PDBs(), kube.Stays{Lifetimes: m.Lifetimes(), Expected: 2 * time.Hour}, false, noon)
		if n.Name != node.Name || len(n.Blocks) > 0 {
			t.Errorf("%s: node %q, blocks %v", name, n.Name, n.Blocks)
		}
	}
}

// A Node cannot teach the attach limit of another instance type than the one that was launched.
//
// Rule LAUNCH-17.
func TestAttachLimitIsOfTheLaunchedType(t *testing.T) {
	claim, node := joined(claimNamed("a"))
	claim.Labels[corev1.LabelInstanceTypeStable] = "launched"
	node.Labels[corev1.LabelInstanceTypeStable] = "another"
	for name, show := range map[string]func(m *Mirror){
		"claim first": func(m *Mirror) { m.SetClaim(claim); m.SetNode(node) },
		"node first":  func(m *Mirror) { m.SetNode(node); m.SetClaim(claim) },
	} {
		m := NewMirror(nil)
		m.SetCSINode(reporting(node.Name, new(int32(3))))
		show(m)
		if lowest := m.parts.catalogs.limits.lowest; len(lowest["another"]) > 0 || len(lowest["launched"]) != 1 {
			t.Errorf("%s: limits %v", name, lowest)
		}
		m.RemoveClaim(claim)
		if lowest := m.parts.catalogs.limits.lowest; len(lowest["launched"]) > 0 {
			t.Errorf("%s: without its NodeClaim, limits %v", name, lowest)
		}
	}
}
