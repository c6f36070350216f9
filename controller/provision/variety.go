// SPDX-License-Identifier: Apache-2.0

package provision

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// keepVariety writes the pool's minValues into the claim, and whether the decision relaxed them.
// The API rejects a claim that lists fewer values than its minValues, so minValues is lowered to
// the length of the list there.
func keepVariety(claim *karpv1.NodeClaim, pool *karpv1.NodePool, relaxed []string) {
	if len(relaxed) > 0 {
		claim.Annotations[karpv1.NodeClaimMinValuesRelaxedAnnotationKey] = "true"
	}
	for _, asked := range pool.Spec.Template.Spec.Requirements {
		if asked.MinValues != nil {
			claim.Spec.Requirements = withVariety(claim.Spec.Requirements, asked.Key, *asked.MinValues)
		}
	}
}

func withVariety(all []karpv1.NodeSelectorRequirementWithMinValues, key string, least int) []karpv1.NodeSelectorRequirementWithMinValues {
	if today, ok := karpv1.NormalizedLabels[key]; ok {
		key = today
	}
	i := slices.IndexFunc(all, func(r karpv1.NodeSelectorRequirementWithMinValues) bool { return r.Key == key })
	if i < 0 {
		return append(all, karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: corev1.NodeSelectorOpExists, MinValues: &least})
	}
	if all[i].Operator == corev1.NodeSelectorOpIn {
		least = min(least, len(all[i].Values))
	}
	if had := all[i].MinValues; had != nil {
		least = max(least, *had)
	}
	all[i].MinValues = &least
	return all
}
