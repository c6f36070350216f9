// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
)

// Node merges a NodeClaim with its Node. Either may be nil, not both. The types are those of
// the claim's node class (nil when unknown). They have the price and, with choices (the offerings
// that the claim accepts), an estimate for a claim whose instance type is not chosen yet.
//
// What the Node says of its instance counts as far as the claim agrees (see Contradictions).
//
// Until the node is initialized, the claim's estimate is used for resources the kubelet does
// not report yet, and startup and ephemeral taints are left out: they are removed before pods
// are scheduled there.
func Node(n *corev1.Node, c *karpv1.NodeClaim, types *InstanceTypes, choices []offering.Ref) cluster.Node {
	switch {
	case c == nil:
		return unmanaged(n)
	case n == nil || n.Labels[karpv1.NodeRegisteredLabelKey] != "true":
		return unregistered(n, c, types, choices)
	}
	return registered(n, c, types)
}

func unmanaged(n *corev1.Node) cluster.Node {
	return cluster.Node{
		Key:               n.Name,
		Name:              n.Name,
		Labels:            n.Labels,
		Taints:            Taints(withCordon(n)),
		Capacity:          Amounts(n.Status.Capacity),
		Allocatable:       Amounts(n.Status.Allocatable),
		Initialized:       true,
		MarkedForDeletion: n.DeletionTimestamp != nil,
		Created:           n.CreationTimestamp.Time,
	}
}

func registered(n *corev1.Node, c *karpv1.NodeClaim, types *InstanceTypes) cluster.Node {
	w := commonFields(n, c)
	w.Labels = believedLabels(n, c)
	w.Taints = Taints(withCordon(n))
	w.Capacity, w.Allocatable = believedCapacity(n, c), believedAllocatable(n, c)
	if !w.Initialized {
		w.Taints = Taints(withoutStartingTaints(n, c))
		w.Capacity = orElse(w.Capacity, Amounts(c.Status.Capacity))
		w.Allocatable = orElse(w.Allocatable, Amounts(c.Status.Allocatable))
	}
	w.Price = types.price(w.Labels)
	return w
}

func unregistered(n *corev1.Node, c *karpv1.NodeClaim, types *InstanceTypes, choices []offering.Ref) cluster.Node {
	w := commonFields(n, c)
	w.Labels = c.Labels
	w.Taints = Taints(c.Spec.Taints)
	if len(c.Status.Allocatable) > 0 {
		w.Capacity, w.Allocatable = Amounts(c.Status.Capacity), Amounts(c.Status.Allocatable)
		w.Price = types.price(w.Labels)
		return w
	}
	return estimated(w, c, types, choices)
}

// commonFields fills in the fields that do not depend on the phase of the launch.
func commonFields(n *corev1.Node, c *karpv1.NodeClaim) cluster.Node {
	w := cluster.Node{
		Key:               c.Name,
		Name:              InFlightName(c.Name),
		Pool:              c.Labels[karpv1.NodePoolLabelKey],
		Initialized:       Initialized(n, c),
		MarkedForDeletion: c.DeletionTimestamp != nil || n != nil && n.DeletionTimestamp != nil,
		HasNodeClaim:      true,
		Created:           c.CreationTimestamp.Time,
	}
	if n != nil {
		w.Name = n.Name
	}
	return w
}

// Initialized reports whether the node of a claim is initialized. A claim whose Node
// was deleted from outside is not, whatever its conditions say.
func Initialized(n *corev1.Node, c *karpv1.NodeClaim) bool {
	return n != nil && (n.Labels[karpv1.NodeInitializedLabelKey] == "true" ||
		ConditionTrue(c, karpv1.ConditionTypeInitialized))
}

// InFlightName stands for the name of a node whose Kubernetes Node does not exist yet, so that pods
// can be nominated to it. No real node has a slash in its name.
func InFlightName(claim string) string { return "nodeclaim/" + claim }

// estimated describes a claim whose instance type is not chosen yet. Labels are those of the
// cheapest acceptable offering, the likeliest to be launched; if that guess fails, a pod that
// was nominated becomes pending again. Capacity and Allocatable err on the safe side:
// the largest capacity of all offerings counts against limits, the smallest allocatable is
// certain to be there for pods.
func estimated(w cluster.Node, c *karpv1.NodeClaim, types *InstanceTypes, choices []offering.Ref) cluster.Node {
	var size offering.NodeSize
	for _, choice := range choices {
		t := types.Find(choice.Type)
		if t == nil {
			continue
		}
		if size.Capacity == nil {
			w = cheapestChoice(w, c, t, choice)
		}
		size.Include(t)
	}
	w.Capacity, w.Allocatable = size.Capacity, size.Allocatable
	if w.Capacity == nil { // the launch reports why; here the node just fits its pods
		w.Allocatable = Amounts(c.Spec.Resources.Requests)
		w.Capacity = quantity.Amounts{}.Add(w.Allocatable)
	}
	// A type that is being launched may be out of stock by now, even because of this launch:
	// limits count it all the same.
	for _, name := range typesNamed(c) {
		if t := types.Find(name); t != nil {
			widen(w.Capacity, t.Capacity)
		}
	}
	return w
}

// typesNamed are the instance types that the claim lists as acceptable.
func typesNamed(c *karpv1.NodeClaim) []string {
	for _, r := range c.Spec.Requirements {
		if r.Key == corev1.LabelInstanceTypeStable && r.Operator == corev1.NodeSelectorOpIn {
			return r.Values
		}
	}
	return nil
}

func cheapestChoice(w cluster.Node, c *karpv1.NodeClaim, t *offering.InstanceType, choice offering.Ref) cluster.Node {
	w.Labels = choiceLabels(c, t, choice)
	w.Price = choice.Price
	if o := find(t, choice.Zone, choice.CapacityType); o != nil && c.Status.ProviderID == "" {
		w.QuotaUses = o.QuotaUses
	}
	return w
}

// widen raises each amount of a to that of b if b has more.
func widen(a, b quantity.Amounts) {
	for name, n := range b {
		a[name] = max(a[name], n)
	}
}

func choiceLabels(c *karpv1.NodeClaim, t *offering.InstanceType, choice offering.Ref) map[string]string {
	labels := singles(t.Labels)
	if o := find(t, choice.Zone, choice.CapacityType); o != nil {
		maps.Copy(labels, singles(o.Labels))
	}
	labels[cluster.LabelInstanceType] = choice.Type
	labels[cluster.LabelZone] = choice.Zone
	labels[cluster.LabelCapacityType] = choice.CapacityType
	maps.Copy(labels, c.Labels)
	return labels
}

func singles(labels map[string][]string) map[string]string {
	one := map[string]string{}
	for key, values := range labels {
		if len(values) == 1 {
			one[key] = values[0]
		}
	}
	return one
}

func find(t *offering.InstanceType, zone, capacityType string) *offering.Offering {
	for i := range t.Offerings {
		if t.Offerings[i].Zone == zone && t.Offerings[i].CapacityType == capacityType {
			return &t.Offerings[i]
		}
	}
	return nil
}

// orElse fills in from estimate the amounts that are missing or zero in a.
func orElse(a, estimate quantity.Amounts) quantity.Amounts {
	if a == nil {
		a = quantity.Amounts{}
	}
	for name, n := range estimate {
		if a[name] == 0 {
			a[name] = n
		}
	}
	return a
}

// withoutStartingTaints leaves out taints that are removed before the node is initialized.
func withoutStartingTaints(n *corev1.Node, c *karpv1.NodeClaim) []corev1.Taint {
	return slices.DeleteFunc(withCordon(n), func(t corev1.Taint) bool {
		return Ephemeral(t) || hasTaint(c.Spec.StartupTaints, t)
	})
}

// withCordon returns a copy of the node's taints, with the taint that the node controller adds to
// a cordoned node a moment later.
func withCordon(n *corev1.Node) []corev1.Taint {
	taints := slices.Clone(n.Spec.Taints)
	cordon := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	if n.Spec.Unschedulable && !hasTaint(taints, cordon) {
		taints = append(taints, cordon)
	}
	return taints
}

// Ephemeral reports whether a taint is one that a node has only while it starts, whichever program
// removes it.
func Ephemeral(t corev1.Taint) bool {
	switch t.Key {
	case corev1.TaintNodeNotReady:
		return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
	case corev1.TaintNodeUnreachable:
		return t.Effect == corev1.TaintEffectNoSchedule
	case "node.cloudprovider.kubernetes.io/uninitialized":
		return t.Value == "true" && t.Effect == corev1.TaintEffectNoSchedule
	case karpv1.UnregisteredTaintKey:
		return t.Effect == corev1.TaintEffectNoExecute
	}
	return strings.HasPrefix(t.Key, "readiness.k8s.io/")
}

func hasTaint(in []corev1.Taint, t corev1.Taint) bool {
	return slices.ContainsFunc(in, func(x corev1.Taint) bool { return x.MatchTaint(&t) })
}

// Ready reports whether the kubelet reports the node as ready.
func Ready(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
