// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/cluster"
)

// Empty is a cluster without nodes and pods in the real region: its sizes, prices and three
// zones, three DaemonSets, and one NodePool on demand, with the size families and generations of
// the clusters that Consolidate builds.
func Empty(ctx context.Context) (*Scenario, error) {
	types, err := region(ctx)
	if err != nil {
		return nil, err
	}
	return &Scenario{
		Name: "empty", Types: withoutQuotas(withoutConstrained(types)), DaemonSets: azureDaemonSets(),
		Pools:    []*karpv1.NodePool{azurePool("general", 10, "", generalSizes(karpv1.CapacityTypeOnDemand)...)},
		Settings: cluster.Settings{PreferenceSurplusPermille: 100},
	}, nil
}

// Disrupted is the scenario with NodePools that are disrupted so.
func (s *Scenario) Disrupted(d karpv1.Disruption) *Scenario {
	out := *s
	out.Pools = nil
	for _, p := range s.Pools {
		p = p.DeepCopy()
		p.Spec.Disruption = d
		out.Pools = append(out.Pools, p)
	}
	return &out
}

// generalSizes are the requirements of NodePools for ordinary pods.
func generalSizes(capacityTypes ...string) []karpv1.NodeSelectorRequirementWithMinValues {
	return []karpv1.NodeSelectorRequirementWithMinValues{
		in(corev1.LabelArchStable, "amd64"), in("karpenter.azure.com/sku-family", "D", "E", "F"),
		in("karpenter.azure.com/sku-version", "2", "3", "4", "5"), // later versions need NVMe disks
		{Key: "karpenter.azure.com/sku-cpu", Operator: corev1.NodeSelectorOpLt, Values: []string{"33"}},
		in(karpv1.CapacityTypeLabelKey, capacityTypes...),
	}
}
