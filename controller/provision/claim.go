// SPDX-License-Identifier: Apache-2.0

package provision

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	karpv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/karve-dev/karve/controller/catalog"
	"github.com/karve-dev/karve/controller/guard"
	"github.com/karve-dev/karve/controller/leader"
	"github.com/karve-dev/karve/engine/schedule"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/kube/state"
)

// PoolExists reports whether the pool, which may be nil, is there to stay: with a pool that is
// deleted its NodeClaims are, too.
func PoolExists(pool *karpv1.NodePool) bool { return pool != nil && pool.DeletionTimestamp == nil }

// Creator creates NodeClaims within the limits of their NodePools (see state.Mirror.ReserveClaim), and as
// fast as the Guard allows.
type Creator struct {
	Client client.Client
	Mirror *state.Mirror
	// Guard limits creations; nil limits none.
	Guard *guard.Guard
}

// Create creates the claim that newClaim makes for a launch. While there is a claim of that name,
// newClaim makes another. It returns a *guard.Error while the Guard holds it back.
func (c Creator) Create(ctx context.Context, l schedule.Launch, newClaim func() *karpv1.NodeClaim) (claim *karpv1.NodeClaim, err error) {
	if err := c.Guard.Take(1); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil && !mayHaveSucceeded(err) {
			c.Guard.Give(1)
		}
	}()
	for {
		claim := newClaim()
		if _, taken := c.Mirror.ManagedNode(claim.Name); taken {
			continue
		}
		if err := c.Mirror.ReserveClaim(state.NewClaim{Claim: claim.DeepCopy(), Offerings: l.Offerings, Pods: l.Pods}); err != nil {
			c.Guard.Give(1)
			return nil, err
		}
		err := Create(ctx, c.Client, claim)
		if err == nil {
			c.Mirror.RecordCreatedClaim(claim, l.Offerings, nil) // its pods are nominated to it already
			return claim, nil
		}
		if mayHaveSucceeded(err) {
			c.Mirror.KeepClaim(claim.Name)
		} else {
			c.Mirror.ReleaseClaim(claim.Name)
		}
		if !apierrors.IsAlreadyExists(err) {
			return nil, err
		}
	}
}

// Create creates a claim under a name that is probably free. A request whose outcome is unknown is
// repeated: if the first one succeeded after all, the name is taken. Such a claim then lacks what
// the API server sets.
func Create(ctx context.Context, c client.Client, claim *karpv1.NodeClaim) error {
	err := tryCreate(ctx, c, claim)
	if err == nil || !mayHaveSucceeded(err) || ctx.Err() != nil {
		return err
	}
	if err = tryCreate(ctx, c, claim); apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// createWithin bounds one request. Both of Create end before the claim is overdue (see
// state.Mirror.OverdueClaims).
const createWithin = 25 * time.Second

// tryCreate changes the claim only if it is created.
func tryCreate(ctx context.Context, c client.Client, claim *karpv1.NodeClaim) error {
	ctx, cancel := context.WithTimeout(ctx, createWithin)
	defer cancel()
	created := claim.DeepCopy()
	if err := c.Create(ctx, created); err != nil {
		return err
	}
	created.DeepCopyInto(claim)
	return nil
}

// mayHaveSucceeded reports whether a request may have succeeded although it returned the error:
// there was no response, or the API server does not know either. What the fence refused was not sent.
func mayHaveSucceeded(err error) bool {
	if refused := (*leader.RefusedError)(nil); errors.As(err, &refused) {
		return false
	}
	var status apierrors.APIStatus
	return !errors.As(err, &status) || status.Status().Code >= http.StatusInternalServerError
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
