// SPDX-License-Identifier: Apache-2.0

package termination_test

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
)

// A Node that is left over from an earlier name of a VM is removed alone: the VM, its NodeClaim
// and the pods of its present Node stay. It makes no difference which of the two Nodes the
// NodeClaim names, if only one has a kubelet that reports.
//
// Rule DRAIN-11.
func TestLeftOverNodeGoesAlone(t *testing.T) {
	for name, c := range map[string]struct{ named, ready bool }{
		"another name in the NodeClaim":  {},
		"and both report":                {ready: true},
		"the NodeClaim has the old name": {named: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := withNode(t, nil, controllertest.Pod("works", "1", "1Gi"))
				e.Steps(5)
				claim := e.Claims()[0]
				old := leftOver(&e.Nodes()[0], c.ready)
				e.Create(old)
				if c.named {
					claim.Status.NodeName = old.Name
					if err := e.API.Status().Update(t.Context(), &claim); err != nil {
						t.Fatal(err)
					}
				}
				e.Steps(5)
				e.Delete(old)
				e.Until(200, "the left-over Node is gone", func() bool { return len(e.Nodes()) == 1 })
				e.Steps(30)
				if !exists(e, claim.Name) || len(e.Cloud.ProviderIDs()) != 1 || len(e.Pods()) != 1 || len(e.Nodes()) != 1 {
					t.Errorf("left are NodeClaims %d, VMs %d, pods %v, Nodes %d; want one of each",
						len(e.Claims()), len(e.Cloud.ProviderIDs()), names(e), len(e.Nodes()))
				}
			})
		})
	}
}

// The Node of a VM takes the VM along, whether another one is left over or not; then nothing of
// either is left.
//
// Rule DRAIN-11.
func TestNodeTakesItsInstanceBesideALeftOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := withNode(t, nil)
		e.Steps(5)
		node := e.Nodes()[0]
		e.Create(leftOver(&node, false))
		e.Steps(5)
		e.Delete(&node)
		e.Until(60, "nothing is left", func() bool {
			return len(e.Claims()) == 0 && len(e.Nodes()) == 0 && len(e.Cloud.ProviderIDs()) == 0
		})
	})
}

// A Node that another machine's kubelet made with the provider ID of a VM does not take the VM along
// when it is deleted, whatever finalizer it has, not even while the VM's own Node does not report. Nor
// does it keep the VM when the VM's NodeClaim is deleted and nothing can drain that Node.
//
// Rules DRAIN-11, LAUNCH-16.
func TestNodeOfAnotherNameNeitherEndsNorKeepsTheInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := controllertest.Pod("held", "1", "1Gi")
		held.Finalizers = []string{"example.com/held"}
		e := withNode(t, nil, controllertest.Pod("works", "1", "1Gi"))
		e.Steps(5)
		node, claim := e.Nodes()[0], e.Claims()[0]
		if claim.Status.NodeName != node.Name {
			t.Fatalf("the NodeClaim names node %q", claim.Status.NodeName)
		}
		rogue := leftOver(&node, true)
		e.Create(rogue)
		for i := range node.Status.Conditions {
			node.Status.Conditions[i].Status = corev1.ConditionUnknown
		}
		if err := e.API.Status().Update(t.Context(), &node); err != nil {
			t.Fatal(err)
		}
		e.Delete(rogue)
		e.Until(200, "the rogue's Node is gone", func() bool { return len(e.Nodes()) == 1 })
		e.Steps(30)
		if !exists(e, claim.Name) || len(e.Cloud.ProviderIDs()) != 1 {
			t.Fatal("the VM went with a Node that is not its own")
		}

		again := leftOver(&node, true)
		again.Labels = nil
		e.Create(again)
		e.Create(held)
		e.Bind("held", again.Name)
		e.Steps(5)
		e.Delete(&claim)
		e.Until(200, "the end of the VM", func() bool { return !exists(e, claim.Name) })
	})
}

// leftOver is another Node of a Node's VM, which karve once registered.
func leftOver(of *corev1.Node, ready bool) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "before-" + of.Name, Labels: of.Labels, Finalizers: []string{karpv1.TerminationFinalizer}}}
	n.Spec.ProviderID, n.Status = of.Spec.ProviderID, *of.Status.DeepCopy()
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; c.Type == corev1.NodeReady && !ready {
			c.Status = corev1.ConditionUnknown
		}
	}
	return n
}
