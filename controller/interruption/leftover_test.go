// SPDX-License-Identifier: Apache-2.0

package interruption_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/kube"
)

// A Node that is left over from an earlier name of a VM does not end the VM: neither a notice that
// it still carries, nor that no kubelet reports as it. The VM's present Node does.
//
// Rule DRAIN-11.
func TestLeftOverNodeInterruptsNothing(t *testing.T) {
	for _, name := range []string{"a-before", "z-before"} { // listed first, and last
		synctest.Test(t, func(t *testing.T) {
			e := withNode(t)
			e.Steps(5)
			node, claim := e.Nodes()[0], e.Claims()[0]
			old := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: node.Labels}, Spec: corev1.NodeSpec{ProviderID: node.Spec.ProviderID}}
			old.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
			notify(old)
			e.Create(old)
			e.Steps(20)
			if got := e.Claims(); len(got) != 1 || got[0].DeletionTimestamp != nil {
				t.Fatalf("%s: the VM is given up", name)
			}
			notify(&node)
			if err := e.API.Update(t.Context(), &node); err != nil {
				t.Fatal(err)
			}
			e.Until(10, "the end of the NodeClaim", func() bool {
				return len(e.Claims()) == 0 || e.Claims()[0].UID != claim.UID || e.Claims()[0].DeletionTimestamp != nil
			})
		})
	}
}

// A notice on a Node that another machine's kubelet made with the provider ID of a VM does not end the VM,
// not even while the VM's own Node does not report.
//
// Rules DRAIN-11, LAUNCH-16.
func TestNodeOfAnotherNameInterruptsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := withNode(t)
		e.Steps(5)
		node := e.Nodes()[0]
		rogue := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "rogue", Labels: node.Labels}, Spec: corev1.NodeSpec{ProviderID: node.Spec.ProviderID}}
		rogue.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		notify(rogue)
		setCondition(t, e, corev1.NodeReady, corev1.ConditionUnknown, "")
		e.Create(rogue)
		e.Steps(20)
		if got := e.Claims(); len(got) != 1 || got[0].DeletionTimestamp != nil {
			t.Fatal("the VM is given up for what another Node says")
		}
	})
}

// An eviction announced for a VM that is not a spot VM is not believed: Azure evicts no others. It is
// said once, and the VM's offering does not count as evicted.
//
// Rule INTERRUPTION-10.
func TestEvictionOfOnDemandVMIsNotBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := withNode(t)
		e.Steps(5)
		claim, node := e.Claims()[0], e.Nodes()[0]
		if claim.Labels[karpv1.CapacityTypeLabelKey] == karpv1.CapacityTypeSpot {
			claim.Labels[karpv1.CapacityTypeLabelKey], node.Labels[karpv1.CapacityTypeLabelKey] = karpv1.CapacityTypeOnDemand, karpv1.CapacityTypeOnDemand
			if err := e.API.Update(t.Context(), &claim); err != nil {
				t.Fatal(err)
			}
		}
		notify(&node)
		if err := e.API.Update(t.Context(), &node); err != nil {
			t.Fatal(err)
		}
		e.Steps(100)
		if got := e.Claims(); len(got) != 1 || got[0].DeletionTimestamp != nil {
			t.Fatal("the VM is given up for an eviction that cannot be")
		}
		if texts := strings.Join(e.EventTexts(node.Name), "\n"); strings.Count(texts, "NodeContradictsClaim") != 1 || !strings.Contains(texts, "Preempt") {
			t.Errorf("events: %s", texts)
		}
	})
}

// notify writes on a Node that its spot VM is about to be taken back.
func notify(n *corev1.Node) {
	taint := corev1.Taint{Key: kube.InterruptionTaint, Value: string(kube.NoticePreempt), Effect: corev1.TaintEffectNoSchedule}
	n.Spec.Taints = append(n.Spec.Taints, taint)
	n.Annotations = map[string]string{kube.NotBeforeAnnotation: time.Now().UTC().Format(time.RFC3339)}
}
