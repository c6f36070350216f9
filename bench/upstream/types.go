// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
)

// InstanceTypes converts what is on sale. As a cloud provider of upstream's does,
// it declares the labels of its types well known, and says of each type which of
// them it lacks.
func InstanceTypes(types []offering.InstanceType) []*cloudprovider.InstanceType {
	keys := labelKeys(types)
	karpv1.WellKnownLabels.Insert(keys...)
	out := make([]*cloudprovider.InstanceType, len(types))
	for i := range types {
		out[i] = instanceType(&types[i], keys)
	}
	return out
}

func labelKeys(types []offering.InstanceType) []string {
	seen := map[string]bool{}
	note := func(labels map[string][]string) {
		for key := range labels {
			seen[key] = true
		}
	}
	for i := range types {
		note(types[i].Labels)
		for j := range types[i].Offerings {
			note(types[i].Offerings[j].Labels)
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

func instanceType(t *offering.InstanceType, keys []string) *cloudprovider.InstanceType {
	values := map[string][]string{corev1.LabelInstanceTypeStable: {t.Name}}
	for _, key := range keys {
		values[key] = slices.Clone(t.Labels[key])
	}
	it := &cloudprovider.InstanceType{
		Name:     t.Name,
		Capacity: ResourceList(t.Capacity),
		Overhead: &cloudprovider.InstanceTypeOverhead{KubeReserved: ResourceList(t.Overhead)},
	}
	for _, o := range t.Offerings {
		way := upstreamOffering(o)
		it.Offerings = append(it.Offerings, way)
		for key, r := range way.Requirements {
			values[key] = append(values[key], r.Values()...)
		}
	}
	it.Requirements = scheduling.NewRequirements()
	for key, list := range values {
		if len(list) == 0 {
			it.Requirements.Add(scheduling.NewRequirement(key, corev1.NodeSelectorOpDoesNotExist))
			continue
		}
		it.Requirements.Add(scheduling.NewRequirement(key, corev1.NodeSelectorOpIn, list...))
	}
	return it
}

func upstreamOffering(o offering.Offering) *cloudprovider.Offering {
	r := scheduling.NewLabelRequirements(map[string]string{
		karpv1.CapacityTypeLabelKey: o.CapacityType,
		corev1.LabelTopologyZone:    o.Zone,
	})
	for key, values := range o.Labels {
		r.Add(scheduling.NewRequirement(key, corev1.NodeSelectorOpIn, values...))
	}
	return &cloudprovider.Offering{Requirements: r, Price: o.Price.USD(), Available: o.Unavailable == ""}
}

// ResourceList turns amounts back into quantities.
func ResourceList(a quantity.Amounts) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, n := range a {
		switch {
		case name == quantity.NameCPU:
			out[corev1.ResourceCPU] = *resource.NewMilliQuantity(n, resource.DecimalSI)
		case name == quantity.NameMemory || strings.HasSuffix(name, "storage"):
			out[corev1.ResourceName(name)] = *resource.NewQuantity(n, resource.BinarySI)
		default:
			out[corev1.ResourceName(name)] = *resource.NewQuantity(n, resource.DecimalSI)
		}
	}
	return out
}
