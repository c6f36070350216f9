// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/engine/quantity"
)

// A kubelet may write what it likes on its own Node. What was launched, and with it what the node
// costs and how large it can be, is in the NodeClaim, which no kubelet may write.

// A Contradiction is something that a Node says about itself and its NodeClaim contradicts. What
// counts is what the NodeClaim says.
type Contradiction struct {
	// About is a label or resource of the NodeClaim, which no kubelet has made up, or that an eviction
	// was announced.
	About string
	// Node and Claim are the two values; Node is empty if it lacks the label.
	Node, Claim string
}

func (c Contradiction) String() string {
	if c.Node == "" {
		return fmt.Sprintf("%s is missing and is %s in the NodeClaim", c.About, c.Claim)
	}
	return fmt.Sprintf("%s is %s, and %s in the NodeClaim", c.About, c.Node, c.Claim)
}

// Contradictions lists what a registered Node says of its instance and its NodeClaim contradicts:
// labels first, then resources of which it has more than any such instance, then that it will be evicted.
func Contradictions(n *corev1.Node, c *karpv1.NodeClaim) []Contradiction {
	var all []Contradiction
	for _, key := range slices.Sorted(maps.Keys(c.Labels)) {
		if describesInstance(key, c) && n.Labels[key] != c.Labels[key] {
			all = append(all, Contradiction{About: key, Node: n.Labels[key], Claim: c.Labels[key]})
		}
	}
	most := launchedWith(c)
	for _, name := range slices.Sorted(maps.Keys(most)) {
		reported := max(baseUnits(corev1.ResourceName(name), n.Status.Capacity[corev1.ResourceName(name)]),
			baseUnits(corev1.ResourceName(name), n.Status.Allocatable[corev1.ResourceName(name)]))
		if isMore(name, reported, most[name]) {
			said, known := asQuantity(name, reported), asQuantity(name, most[name])
			all = append(all, Contradiction{About: name, Node: said.String(), Claim: known.String()})
		}
	}
	if notice, ok := NoticeOf(n); ok && impossible(notice, c) {
		key := karpv1.CapacityTypeLabelKey
		all = append(all, Contradiction{About: "notice of an eviction", Node: string(notice.Kind), Claim: key + ": " + c.Labels[key]})
	}
	return all
}

// describesInstance reports whether a label says what the claim's instance is (its NodePool, node
// class, instance type and offering) rather than what users made of the node.
func describesInstance(key string, c *karpv1.NodeClaim) bool {
	switch key {
	case corev1.LabelInstanceTypeStable, corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelArchStable, corev1.LabelOSStable,
		karpv1.CapacityTypeLabelKey, karpv1.NodePoolLabelKey:
		return true
	}
	if ref := c.Spec.NodeClassRef; ref != nil && key == karpv1.NodeClassLabelKey(ref.GroupKind()) {
		return true
	}
	return strings.HasPrefix(key, v1beta1.Group+"/")
}

// believedLabels are the Node's labels; those that describe the instance are the claim's.
func believedLabels(n *corev1.Node, c *karpv1.NodeClaim) map[string]string {
	corrected := map[string]string{}
	for key, value := range c.Labels {
		if describesInstance(key, c) && n.Labels[key] != value {
			corrected[key] = value
		}
	}
	if len(corrected) == 0 {
		return n.Labels
	}
	labels := maps.Clone(n.Labels)
	maps.Copy(labels, corrected)
	return labels
}

// believedAllocatable is what the Node offers to pods: of no resource more than its instance was
// launched with. A resource that the claim does not list, such as one of a user's device plugin, is
// what the Node says.
func believedAllocatable(n *corev1.Node, c *karpv1.NodeClaim) quantity.Amounts {
	reported, launched := Amounts(n.Status.Allocatable), Amounts(c.Status.Allocatable)
	for name, most := range launchedWith(c) {
		if isMore(name, reported[name], most) {
			reported[name] = launched[name]
		}
	}
	return reported
}

// believedCapacity is the Node's size as limits count it: what its instance was launched with, as the
// Node measured it where that is near.
func believedCapacity(n *corev1.Node, c *karpv1.NodeClaim) quantity.Amounts {
	reported := Amounts(n.Status.Capacity)
	for name, launched := range Amounts(c.Status.Capacity) {
		if isMore(name, reported[name], launched) || isMore(name, launched, reported[name]) {
			if reported == nil {
				reported = quantity.Amounts{}
			}
			reported[name] = launched
		}
	}
	return reported
}

// launchedWith is the most of each resource that the claim's instance may have. It has none that the
// claim does not list.
func launchedWith(c *karpv1.NodeClaim) quantity.Amounts {
	most := quantity.Amounts{}
	widen(most, Amounts(c.Status.Capacity))
	widen(most, Amounts(c.Status.Allocatable))
	maps.DeleteFunc(most, func(_ string, n int64) bool { return n == 0 })
	return most
}

// isMore reports whether a is certainly more than b. Before a node runs, its memory and storage are
// estimated: the firmware and the file system take a part of what is advertised, a quarter at most.
func isMore(name string, a, b int64) bool {
	if name == quantity.NameMemory || name == quantity.NameStorage {
		return a > b+b/4
	}
	return a > b
}
