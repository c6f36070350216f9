// SPDX-License-Identifier: Apache-2.0

package state

import (
	"testing"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/kube"
)

// Capacity is sought for a running pod or for its replacement, never for both.
//
// Rule SURGE-6.
func TestSupersededPodNeedsNoRoom(t *testing.T) {
	m := NewMirror(nil)
	old, next := pendingPod("old"), pendingPod("next")
	leaving, node := joined(claimNamed("leaving"))
	staying, home := joined(claimNamed("staying"))
	now := node.CreationTimestamp
	leaving.DeletionTimestamp = &now
	m.SetClaim(leaving)
	m.SetNode(node)
	m.SetClaim(staying)
	m.SetNode(home)
	old = boundTo(old, node.Name)
	m.SetPod(old, false)
	m.Nominate(staying.Name, []cluster.PodRef{kube.Ref(old)})
	if got := m.parts.builder.pods["uid-old"].Node; got != home.Name {
		t.Fatalf("the pod is nominated to %q, want %q", got, home.Name)
	}
	m.Supersede(old)
	m.Supersede(old)
	if w := m.parts.builder.pods["uid-old"]; w.Node != node.Name || w.ReschedulableNow {
		t.Errorf("bound to %q, reschedulable now %t: want where it runs, and not reschedulable now", w.Node, w.ReschedulableNow)
	}
	m.Nominate(staying.Name, []cluster.PodRef{kube.Ref(old), kube.Ref(next)})
	if _, nominated := m.parts.nominations.nodeOf["uid-old"]; nominated {
		t.Error("the old pod was nominated again")
	}
	m.RemovePod(old)
	if len(m.parts.podReplacements.superseded) != 0 {
		t.Error("a pod that is gone is remembered")
	}
	m.Supersede(old) // deleted already: no effect
	if len(m.parts.podReplacements.superseded) != 0 {
		t.Error("a pod that is gone is remembered")
	}
}
