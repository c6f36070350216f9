// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
)

// linearTypes are the fake types of upstream's benchmark: the i-th has i cores,
// 2 GiB for each and room for ten pods for each, at a price that is linear in
// both resources and the same in every zone and as spot.
func linearTypes(n int) []offering.InstanceType {
	out := make([]offering.InstanceType, 0, n)
	for i := int64(1); i <= int64(n); i++ {
		out = append(out, linearType(i))
	}
	return out
}

func linearType(cores int64) offering.InstanceType {
	memory := 2 * cores << 30
	return offering.InstanceType{
		Name: fmt.Sprintf("fake-it-%d", cores-1),
		Labels: map[string][]string{
			corev1.LabelArchStable: {"amd64"},
			corev1.LabelOSStable:   {"linux", "windows", "darwin"},
			"integer":              {fmt.Sprint(cores)},
		},
		Capacity:  quantity.Amounts{quantity.NameCPU: cores * 1000, quantity.NameMemory: memory, quantity.NamePods: cores * 10},
		Overhead:  quantity.Amounts{quantity.NameCPU: 100, quantity.NameMemory: 10 << 20},
		Offerings: linearOfferings(offering.Price(cores*100_000_000 + memory/10)), // 0.1 $ a core, 0.1 $ a billion bytes
	}
}

func linearOfferings(price offering.Price) []offering.Offering {
	var out []offering.Offering
	for _, way := range []struct{ zone, capacityType string }{
		{"test-zone-1", offering.Spot}, {"test-zone-2", offering.Spot},
		{"test-zone-1", offering.OnDemand}, {"test-zone-2", offering.OnDemand}, {"test-zone-3", offering.OnDemand},
	} {
		out = append(out, offering.Offering{Zone: way.zone, CapacityType: way.capacityType, Price: price})
	}
	return out
}

// widePool is a pool whose limits are too large to matter, but are checked all the same.
func widePool() *karpv1.NodePool {
	p := pool("default")
	p.Spec.Limits = karpv1.Limits{
		corev1.ResourceCPU:    resource.MustParse("10000000"),
		corev1.ResourceMemory: resource.MustParse("10000000Gi"),
	}
	return p
}
