// SPDX-License-Identifier: Apache-2.0

package provision

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	karpv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/karve-dev/karve/controller/catalog"
	"github.com/karve-dev/karve/engine/schedule"
	"github.com/karve-dev/karve/kube"
)

// PoolExists reports whether the pool, which may be nil, is there to stay: with a pool that is
// deleted its NodeClaims are, too.
func PoolExists(pool *karpv1.NodePool) bool { return pool != nil && pool.DeletionTimestamp == nil }

// CreateClaim creates the claim that newClaim makes. While the API has one of that name, newClaim
// makes another.
func CreateClaim(ctx context.Context, c client.Client, newClaim func() *karpv1.NodeClaim) (*karpv1.NodeClaim, error) {
	for {
		claim := newClaim()
		err := c.Create(ctx, claim)
		if !apierrors.IsAlreadyExists(err) {
			return claim, err
		}
	}
}

// NewClaim is the claim of a launch, under a name that is probably free.
func NewClaim(k *catalog.Keeper, l schedule.Launch, pool *karpv1.NodePool) *karpv1.NodeClaim {
	claim := kube.Claim(l, pool, pool.Name+"-"+rand.String(5))
	copyMinValues(claim, pool, l.Relaxed)
	noteOverlays(claim, k, l)
	return claim
}

// noteOverlays annotates a claim whose offerings NodeOverlays changed.
func noteOverlays(claim *karpv1.NodeClaim, k *catalog.Keeper, l schedule.Launch) {
	price, capacity := k.Touched(kube.ClassOf(claim.Spec.NodeClassRef), l.Offerings)
	if price {
		claim.Annotations[karpv1alpha1.PriceOverlayAppliedAnnotationKey] = "true"
	}
	if capacity {
		claim.Annotations[karpv1alpha1.CapacityOverlayAppliedAnnotationKey] = "true"
	}
}

// copyMinValues writes the pool's minValues into the claim, and whether the decision relaxed them.
// The API rejects a claim that lists fewer values than its minValues, so minValues is lowered to
// the length of the list there.
func copyMinValues(claim *karpv1.NodeClaim, pool *karpv1.NodePool, relaxed []string) {
	if len(relaxed) > 0 {
		claim.Annotations[karpv1.NodeClaimMinValuesRelaxedAnnotationKey] = "true"
	}
	for _, asked := range pool.Spec.Template.Spec.Requirements {
		if asked.MinValues != nil {
			claim.Spec.Requirements = withMinValues(claim.Spec.Requirements, asked.Key, *asked.MinValues)
		}
	}
}

func withMinValues(all []karpv1.NodeSelectorRequirementWithMinValues, key string, least int) []karpv1.NodeSelectorRequirementWithMinValues {
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
