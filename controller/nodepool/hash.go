// SPDX-License-Identifier: Apache-2.0

package nodepool

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/kube"
)

// recordHash records the hash of the pool's template. Claims stamped under
// another version of the formula are stamped again first: otherwise every node
// would seem to have drifted.
func (r *Reconciler) recordHash(ctx context.Context, pool *karpv1.NodePool) error {
	hash, version := pool.Hash(), karpv1.NodePoolHashVersion
	if pool.Annotations[karpv1.NodePoolHashVersionAnnotationKey] != version {
		if err := r.rehashClaims(ctx, pool.Name, hash, version); err != nil {
			return err
		}
	}
	stored := pool.DeepCopy()
	if !setHash(&pool.Annotations, hash, version) {
		return nil
	}
	if err := r.Client.Patch(ctx, pool, client.MergeFrom(stored)); err != nil {
		return fmt.Errorf("stamping nodepool %s: %w", pool.Name, err)
	}
	return nil
}

func (r *Reconciler) rehashClaims(ctx context.Context, pool, hash, version string) error {
	claims := &karpv1.NodeClaimList{}
	if err := r.Client.List(ctx, claims, client.MatchingLabels{karpv1.NodePoolLabelKey: pool}); err != nil {
		return fmt.Errorf("listing the nodeclaims of nodepool %s: %w", pool, err)
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		if claim.Annotations[karpv1.NodePoolHashVersionAnnotationKey] == version {
			continue
		}
		stored, keep := claim.DeepCopy(), hash
		if kube.ConditionTrue(claim, karpv1.ConditionTypeDrifted) {
			keep = claim.Annotations[karpv1.NodePoolHashAnnotationKey] // it remains drifted
		}
		setHash(&claim.Annotations, keep, version)
		if err := r.Client.Patch(ctx, claim, client.MergeFrom(stored)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("stamping nodeclaim %s: %w", claim.Name, err)
		}
	}
	return nil
}

// setHash sets both annotations and reports whether that changed anything.
func setHash(annotations *map[string]string, hash, version string) bool {
	a := *annotations
	if a[karpv1.NodePoolHashAnnotationKey] == hash && a[karpv1.NodePoolHashVersionAnnotationKey] == version {
		return false
	}
	if a == nil {
		a = map[string]string{}
		*annotations = a
	}
	a[karpv1.NodePoolHashAnnotationKey], a[karpv1.NodePoolHashVersionAnnotationKey] = hash, version
	return true
}
