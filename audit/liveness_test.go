// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// L1: a pod for which there can be a node gets one.
func TestWaiting(t *testing.T) {
	run(t, "L1", map[string]func(h *history){
		"bound in time": func(h *history) {
			p := podOn("p", "")
			h.put(p)
			h.event(p, eventNominated)
			h.wait(19 * time.Minute)
			h.put(podOn("p", "a1"))
			h.wait(time.Hour)
		},
		"never bound [L1]": func(h *history) {
			p := podOn("p", "")
			h.put(p)
			h.event(p, eventNominated)
			h.wait(21 * time.Minute)
			h.wait(time.Hour)
		},
		"there can be no node": func(h *history) {
			p := podOn("p", "")
			h.put(p)
			h.event(p, eventUnschedulable)
			h.wait(24 * time.Hour)
		},
		"there can be no node, said before the pod is seen": func(h *history) {
			p := podOn("p", "")
			h.event(p, eventUnschedulable)
			h.put(p)
			h.wait(24 * time.Hour)
		},
		"there can be one again": func(h *history) {
			p := podOn("p", "")
			h.put(p)
			h.event(p, eventUnschedulable)
			h.wait(24 * time.Hour)
			h.event(p, eventNominated)
			h.wait(19 * time.Minute)
		},
		"there can be one again, for long [L1]": func(h *history) {
			p := podOn("p", "")
			h.put(p)
			h.event(p, eventUnschedulable)
			h.wait(24 * time.Hour)
			h.event(p, eventNominated)
			h.wait(21 * time.Minute)
		},
		"it has gates": func(h *history) {
			p := podOn("p", "")
			p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "later"}}
			h.put(p)
			h.wait(time.Hour)
		},
		"it wants no node of a NodePool": func(h *history) {
			p := podOn("p", "")
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: karpv1.NodePoolLabelKey, Operator: corev1.NodeSelectorOpDoesNotExist}}}},
			}}}
			h.put(p)
			h.wait(time.Hour)
		},
		"it is a DaemonSet's": func(h *history) {
			p := podOn("p", "")
			p.OwnerReferences[0].Kind = "DaemonSet"
			h.put(p)
			h.wait(time.Hour)
		},
		"kube-scheduler has not tried": func(h *history) {
			p := podOn("p", "")
			p.Status.Conditions = nil
			h.put(p)
			h.wait(time.Hour)
		},
		"it is deleted": func(h *history) {
			p := podOn("p", "")
			h.put(p)
			h.remove(p)
			h.wait(time.Hour)
		},
		"time begins anew after a failure of others": func(h *history) {
			h.put(podOn("p", ""))
			h.wait(19 * time.Minute)
			h.a.Disturbed(h.now)
			h.wait(19 * time.Minute)
		},
	})
}

// L3: Nodes, NodeClaims and VMs go together.
func TestMismatches(t *testing.T) {
	run(t, "L3", map[string]func(h *history){
		"all three": func(h *history) {
			c := initialized(claimOf("a1", "a", ""), "cpu=4")
			h.put(c, nodeOf(c))
			h.list(2*time.Hour, vmFor(c))
		},
		"a Node is left [L3]": func(h *history) { // Azure/karpenter-provider-azure 1907
			c := initialized(claimOf("a1", "a", ""), "cpu=4")
			h.put(c, nodeOf(c))
			h.remove(c)
			h.wait(31 * time.Minute)
		},
		"a Node is left, and karve says why": func(h *history) {
			c := initialized(claimOf("a1", "a", ""), "cpu=4")
			n := nodeOf(c)
			h.put(c, n)
			h.remove(c)
			for range 5 {
				h.event(n, eventUnclaimed)
				h.wait(10 * time.Minute)
			}
		},
		"a Node is left, and karve said so once [L3]": func(h *history) {
			c := initialized(claimOf("a1", "a", ""), "cpu=4")
			n := nodeOf(c)
			h.put(c, n)
			h.remove(c)
			h.event(n, eventUnclaimed)
			h.wait(31 * time.Minute)
		},
		"a Node is left for a while": func(h *history) {
			c := initialized(claimOf("a1", "a", ""), "cpu=4")
			n := nodeOf(c)
			h.put(n, c)
			h.remove(c)
			h.wait(29 * time.Minute)
			h.remove(n)
			h.wait(time.Hour)
		},
		"a Node that karve did not launch": func(h *history) {
			n := nodeOf(claimOf("a1", "a", ""))
			n.Labels = nil
			h.put(n)
			h.wait(time.Hour)
		},
		"a VM is gone [L3]": func(h *history) { // kubernetes/autoscaler 2821
			c := initialized(claimOf("a1", "a", ""), "cpu=4")
			h.put(c, nodeOf(c))
			h.cloud(vmFor(c))
			h.list(32 * time.Minute)
		},
		"a VM that the list does not have yet": func(h *history) {
			c := initialized(claimOf("a1", "a", ""), "cpu=4")
			h.put(c)
			h.list(5 * time.Minute)
			h.list(time.Hour, vmFor(c))
		},
		"no list was had": func(h *history) {
			c := initialized(claimOf("a1", "a", ""), "cpu=4")
			h.put(c)
			h.wait(24 * time.Hour)
		},
	})
}

// L5: terminations end.
func TestTerminations(t *testing.T) {
	leaving := func(h *history, grace time.Duration, pods ...*corev1.Pod) *karpv1.NodeClaim {
		c := initialized(claimOf("a1", "a", ""), "cpu=4")
		if grace > 0 {
			c.Spec.TerminationGracePeriod = &metav1.Duration{Duration: grace}
		}
		h.put(c, nodeOf(c))
		for _, p := range pods {
			h.put(p)
		}
		h.terminate(c)
		return c
	}
	run(t, "L5", map[string]func(h *history){
		"ended in time": func(h *history) {
			c := leaving(h, 0)
			h.wait(29 * time.Minute)
			h.remove(nodeOf(c), c)
			h.wait(time.Hour)
		},
		"without end [L5]": func(h *history) {
			leaving(h, 0)
			h.wait(31 * time.Minute)
		},
		"a pod may stay without a deadline": func(h *history) {
			leaving(h, 0, podOn("p", "a1"))
			h.wait(24 * time.Hour)
		},
		"but not longer [L5]": func(h *history) {
			p := podOn("p", "a1")
			leaving(h, 0, p)
			h.wait(24 * time.Hour)
			h.remove(p)
			h.wait(29 * time.Minute)
			h.want()
			h.wait(2 * time.Minute)
		},
		"a pod beyond the deadline [L5]": func(h *history) { // kubernetes-sigs/karpenter 1776
			leaving(h, time.Hour, podOn("p", "a1"))
			h.wait(89 * time.Minute)
			h.want()
			h.wait(2 * time.Minute)
		},
		"a DaemonSet's pod holds nothing [L5]": func(h *history) {
			p := podOn("p", "a1")
			p.OwnerReferences[0].Kind = "DaemonSet"
			leaving(h, 0, p)
			h.wait(31 * time.Minute)
		},
		"a finalizer of others": func(h *history) {
			c := leaving(h, 0)
			c.Finalizers = []string{"example.com/keep"}
			h.put(c)
			h.wait(24 * time.Hour)
		},
		"a volume without a deadline": func(h *history) {
			c := leaving(h, 0)
			h.put(said(c, karpv1.ConditionTypeVolumesDetached, metav1.ConditionUnknown, "AwaitingVolumeDetachment"))
			h.wait(24 * time.Hour)
		},
		"the cloud refuses, and the NodeClaim says so": func(h *history) {
			c := leaving(h, 0)
			h.put(said(c, karpv1.ConditionTypeInstanceTerminating, metav1.ConditionUnknown, "TerminationFailed"))
			h.wait(24 * time.Hour)
		},
	})
}
