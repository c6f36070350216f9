// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/kube"
)

// Instance identifies the NodePool and the offering of a node.
type Instance struct{ Name, Pool, Type, Zone, CapacityType string }

// Node is the node that the instance becomes, initialized and ready for disruption,
// with its NodeClaim and the pods of the DaemonSets on it. A label for which the type
// has several values gets the last.
func (s *Scenario) Node(m Instance) (*corev1.Node, *karpv1.NodeClaim, []*corev1.Pod, error) {
	t, offer := s.offeringOf(m)
	p := slices.IndexFunc(s.Pools, func(p *karpv1.NodePool) bool { return p.Name == m.Pool })
	if offer == nil || p < 0 {
		return nil, nil, nil, fmt.Errorf("node %s: no offering of %s in %s as %s for NodePool %s", m.Name, m.Type, m.Zone, m.CapacityType, m.Pool)
	}
	template := s.Pools[p].Spec.Template
	node := &corev1.Node{ObjectMeta: meta("node", m.Name)}
	for _, from := range []map[string][]string{t.Labels, offer.Labels} {
		for key, values := range from {
			if len(values) > 0 {
				node.Labels[key] = values[len(values)-1]
			}
		}
	}
	maps.Copy(node.Labels, template.Labels)
	maps.Copy(node.Labels, map[string]string{
		corev1.LabelHostname:               m.Name,
		corev1.LabelTopologyZone:           m.Zone,
		corev1.LabelInstanceTypeStable:     m.Type,
		karpv1.CapacityTypeLabelKey:        m.CapacityType,
		karpv1.NodePoolLabelKey:            m.Pool,
		karpv1.NodeRegisteredLabelKey:      "true",
		karpv1.NodeInitializedLabelKey:     "true",
		"karpenter.azure.com/aksnodeclass": Class,
	})
	node.Spec.ProviderID = "fake:///" + m.Name
	node.Spec.Taints = slices.Clone(template.Spec.Taints)
	node.Status.Capacity = kube.ResourceList(t.Capacity)
	node.Status.Allocatable = kube.ResourceList(t.Capacity.Sub(t.Overhead))
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: moment}}
	return node, claimOf(node, template.Spec), s.daemons(m.Name), nil
}

func claimOf(node *corev1.Node, template karpv1.NodeClaimTemplateSpec) *karpv1.NodeClaim {
	claim := &karpv1.NodeClaim{ObjectMeta: meta("claim", node.Name)}
	claim.Labels = node.Labels
	claim.Spec.NodeClassRef, claim.Spec.Taints = template.NodeClassRef, template.Taints
	claim.Status = karpv1.NodeClaimStatus{
		NodeName: node.Name, ProviderID: node.Spec.ProviderID, Capacity: node.Status.Capacity, Allocatable: node.Status.Allocatable,
		LastPodEventTime: moment,
	}
	for _, c := range []string{
		karpv1.ConditionTypeLaunched, karpv1.ConditionTypeRegistered, karpv1.ConditionTypeInitialized, karpv1.ConditionTypeConsolidatable,
	} {
		claim.StatusConditions().SetTrue(c)
	}
	for i := range claim.Status.Conditions {
		claim.Status.Conditions[i].LastTransitionTime = moment
	}
	return claim
}

// Price is the price of the instance's offering.
func (s *Scenario) Price(m Instance) (offering.Price, error) {
	_, offer := s.offeringOf(m)
	if offer == nil {
		return 0, fmt.Errorf("no offering of %s in %s as %s", m.Type, m.Zone, m.CapacityType)
	}
	return offer.Price, nil
}

func (s *Scenario) offeringOf(m Instance) (*offering.InstanceType, *offering.Offering) {
	i := slices.IndexFunc(s.Types, func(t offering.InstanceType) bool { return t.Name == m.Type })
	if i < 0 {
		return nil, nil
	}
	offers := s.Types[i].Offerings
	j := slices.IndexFunc(offers, func(o offering.Offering) bool { return o.Zone == m.Zone && o.CapacityType == m.CapacityType })
	if j < 0 {
		return nil, nil
	}
	return &s.Types[i], &offers[j]
}

// InstanceOf reads the instance from a node's labels.
func InstanceOf(n *corev1.Node) Instance {
	return Instance{
		Name: n.Name, Pool: n.Labels[karpv1.NodePoolLabelKey], Type: n.Labels[corev1.LabelInstanceTypeStable],
		Zone: n.Labels[corev1.LabelTopologyZone], CapacityType: n.Labels[karpv1.CapacityTypeLabelKey],
	}
}

// daemons are the pods that the DaemonSets run on a node. All of them go everywhere.
func (s *Scenario) daemons(node string) []*corev1.Pod {
	var out []*corev1.Pod
	for _, d := range s.DaemonSets {
		p := &corev1.Pod{ObjectMeta: meta("pod", d.Name+"-"+node), Spec: *d.Spec.Template.Spec.DeepCopy()}
		p.Namespace = d.Namespace
		p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))}
		run(p, node)
		out = append(out, p)
	}
	return out
}

// run binds the pod to the node, where it has been ready for a while.
func run(p *corev1.Pod, node string) { Run(p, node, moment.Time) }

// Run binds the pod to the node, where it has been ready since.
func Run(p *corev1.Pod, node string, since time.Time) {
	start := metav1.NewTime(since)
	p.Spec.NodeName = node
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &start, Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: start},
		{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: start},
	}}
}
