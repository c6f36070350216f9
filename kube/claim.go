// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/schedule"
	"github.com/karve-dev/karve/provider"
)

// Claim converts a planned launch to a NodeClaim of its pool. The claim has the finalizer from
// the start: if it is deleted before any controller handles it, its instance must still be looked
// for.
func Claim(l schedule.Launch, pool *karpv1.NodePool, name string) *karpv1.NodeClaim {
	template := pool.Spec.Template
	return &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name:            name,
			Labels:          claimLabels(l, pool),
			Annotations:     claimAnnotations(pool),
			Finalizers:      []string{karpv1.TerminationFinalizer},
			OwnerReferences: []metav1.OwnerReference{poolReference(pool)},
		},
		Spec: karpv1.NodeClaimSpec{
			Taints:                 template.Spec.Taints,
			StartupTaints:          template.Spec.StartupTaints,
			Requirements:           Requirements(writable(l.Rules)),
			Resources:              karpv1.ResourceRequirements{Requests: ResourceList(l.Requests)},
			NodeClassRef:           template.Spec.NodeClassRef,
			ExpireAfter:            template.Spec.ExpireAfter,
			TerminationGracePeriod: template.Spec.TerminationGracePeriod,
		},
	}
}

// writable leaves out requirements on labels that AKS gives all nodes of a class and that the API
// server does not accept in a NodeClaim's requirements. The instance types that the claim lists
// meet them.
func writable(rules []constraint.Rule) []constraint.Rule {
	allowed := v1beta1.AllowedAKSLabels()
	return slices.DeleteFunc(slices.Clone(rules), func(r constraint.Rule) bool {
		domain, _, _ := strings.Cut(r.Key, "/")
		return domain == v1beta1.AKSLabelDomain && !slices.Contains(allowed, r.Key)
	})
}

func claimLabels(l schedule.Launch, pool *karpv1.NodePool) map[string]string {
	labels := maps.Clone(pool.Spec.Template.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, l.Labels)
	labels[karpv1.NodePoolLabelKey] = pool.Name
	if ref := pool.Spec.Template.Spec.NodeClassRef; ref != nil {
		labels[karpv1.NodeClassLabelKey(ref.GroupKind())] = ref.Name
	}
	return labels
}

func claimAnnotations(pool *karpv1.NodePool) map[string]string {
	annotations := maps.Clone(pool.Spec.Template.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[karpv1.NodePoolHashAnnotationKey] = pool.Hash()
	annotations[karpv1.NodePoolHashVersionAnnotationKey] = karpv1.NodePoolHashVersion
	annotations[karpv1.NodeClaimMinValuesRelaxedAnnotationKey] = "false"
	return annotations
}

func poolReference(pool *karpv1.NodePool) metav1.OwnerReference {
	block := true
	return metav1.OwnerReference{
		APIVersion:         "karpenter.sh/v1",
		Kind:               "NodePool",
		Name:               pool.Name,
		UID:                pool.UID,
		BlockOwnerDeletion: &block,
	}
}

// ClassOf is the name of the claim's node class.
func ClassOf(ref *karpv1.NodeClassReference) string {
	if ref == nil {
		return ""
	}
	return ref.Name
}

// OfKind reports whether the reference is to a node class of that kind. Claims and pools of other
// kinds belong to other installations.
func OfKind(ref *karpv1.NodeClassReference, kind schema.GroupKind) bool {
	return ref != nil && ref.GroupKind() == kind
}

// Offerings lists the offerings of types that the claim accepts, cheapest first. Zones rotate by
// the claim's UID (see offering.RotateZones). The error names the requirement that cannot be
// read.
func Offerings(c *karpv1.NodeClaim, types []offering.InstanceType) ([]offering.Ref, error) {
	choices, err := offering.Compatible(types, Rules(c.Spec.Requirements), Amounts(c.Spec.Resources.Requests))
	return offering.RotateZones(choices, string(c.UID)), err
}

// OfferingOf is the offering that a claim was launched as; empty before the launch.
func OfferingOf(c *karpv1.NodeClaim) offering.Ref {
	return offering.Ref{Type: c.Labels[cluster.LabelInstanceType], Zone: c.Labels[cluster.LabelZone], CapacityType: c.Labels[cluster.LabelCapacityType]}
}

// ProviderClaim converts the claim to what a provider needs to launch its instance as one of the
// offerings.
func ProviderClaim(c *karpv1.NodeClaim, choices []offering.Ref) provider.Claim {
	return provider.Claim{
		Name:          c.Name,
		UID:           string(c.UID),
		Pool:          c.Labels[karpv1.NodePoolLabelKey],
		Class:         ClassOf(c.Spec.NodeClassRef),
		Offerings:     choices,
		Labels:        maps.Clone(c.Labels),
		Taints:        registrationTaints(c.Spec.Taints),
		StartupTaints: registrationTaints(c.Spec.StartupTaints),
		Requests:      Amounts(c.Spec.Resources.Requests),
		LaunchState:   launchState(c),
		Urgent:        c.Annotations[UrgentAnnotation] == "true",
	}
}

// launchState returns the claim's annotations under karve's own domain.
func launchState(c *karpv1.NodeClaim) map[string]string {
	out := map[string]string{}
	for key, value := range c.Annotations {
		if strings.HasPrefix(key, "karve.dev/") {
			out[key] = value
		}
	}
	return out
}

// registrationTaints converts taints that a provider passes to the kubelet for registration.
func registrationTaints(in []corev1.Taint) []provider.Taint {
	var out []provider.Taint
	for _, t := range in {
		out = append(out, provider.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
	}
	return out
}

// ConditionTrue reports whether a condition of a claim is True, without changing the object. The
// claim may be nil.
func ConditionTrue(c *karpv1.NodeClaim, conditionType string) bool {
	if c == nil {
		return false
	}
	for i := range c.Status.Conditions {
		if c.Status.Conditions[i].Type == conditionType {
			return c.Status.Conditions[i].Status == metav1.ConditionTrue
		}
	}
	return false
}
