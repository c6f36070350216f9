// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
)

// nodeCores is the size of every existing node. Its pods take three quarters of
// it on average, so that some nodes are full and most have room for a few more.
const nodeCores = 16

// Existing is a running cluster of so many nodes in three zones and so many bound
// pods, evenly distributed, with the diverse mix pending.
func Existing(nodes, bound, waiting int) *Scenario {
	s := Diverse(waiting)
	s.Name = "existing"
	r := newRandom()
	t := linearType(nodeCores)
	for i := range nodes {
		s.addNode(&t, i)
	}
	for i := range bound {
		s.Bound = append(s.Bound, s.boundPod(r, i, max(1, bound/nodes)))
	}
	return s
}

func (s *Scenario) addNode(t *offering.InstanceType, i int) {
	name := serial("node", i)
	labels := map[string]string{
		corev1.LabelHostname:               name,
		corev1.LabelTopologyZone:           fmt.Sprintf("test-zone-%d", 1+i%3),
		corev1.LabelInstanceTypeStable:     t.Name,
		corev1.LabelArchStable:             "amd64",
		corev1.LabelOSStable:               "linux",
		"integer":                          fmt.Sprint(nodeCores),
		karpv1.CapacityTypeLabelKey:        karpv1.CapacityTypeOnDemand,
		karpv1.NodePoolLabelKey:            s.Pools[0].Name,
		karpv1.NodeRegisteredLabelKey:      "true",
		karpv1.NodeInitializedLabelKey:     "true",
		"karpenter.azure.com/aksnodeclass": Class,
	}
	node := &corev1.Node{ObjectMeta: meta("node", name)}
	node.Labels = labels
	node.Spec.ProviderID = "fake:///" + name
	node.Status.Capacity = list(t.Capacity)
	node.Status.Allocatable = list(t.Capacity.Sub(t.Overhead))
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	claim := &karpv1.NodeClaim{ObjectMeta: meta("claim", serial("claim", i))}
	claim.Labels = labels
	claim.Spec.NodeClassRef = s.Pools[0].Spec.Template.Spec.NodeClassRef
	claim.Status = karpv1.NodeClaimStatus{
		NodeName: name, ProviderID: node.Spec.ProviderID, Capacity: node.Status.Capacity, Allocatable: node.Status.Allocatable,
	}
	for _, c := range []string{karpv1.ConditionTypeLaunched, karpv1.ConditionTypeRegistered, karpv1.ConditionTypeInitialized} {
		claim.StatusConditions().SetTrue(c)
	}
	s.Nodes, s.Claims = append(s.Nodes, node), append(s.Claims, claim)
}

// list turns the base amounts of a type into quantities.
func list(a quantity.Amounts) corev1.ResourceList {
	l := requests(a[quantity.NameCPU], a[quantity.NameMemory]>>20)
	l[corev1.ResourcePods] = *quantityOf(a[quantity.NamePods])
	return l
}

// boundPod runs on the i-th node in turn. One in ten nodes has a pod that the
// mix's selectors pick; no selector matches the label of the others.
func (s *Scenario) boundPod(r random, i, perNode int) *corev1.Pod {
	node := i % len(s.Nodes)
	cpu := int64(nodeCores*1000) / int64(perNode)
	p := pending(serial("bound", i), requests(cpu*int64(60+r.IntN(31))/100, cpu*int64(60+r.IntN(61))/100))
	p.Labels = r.label("team")
	if i/len(s.Nodes) == 0 && node%10 == 0 {
		p.Labels = r.label("my-label")
	}
	p.Spec.NodeName = s.Nodes[node].Name
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}}
	return p
}
