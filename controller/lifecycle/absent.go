// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/provider"
)

const (
	// joinTimeout is the time by which most nodes have joined: three times the slowest of a healthy
	// region. After it the provider is asked about the instance.
	joinTimeout = 3 * time.Minute
	// recheckEvery is how often the provider is asked again.
	recheckEvery = time.Minute
)

// deleteUnjoined deletes the claim if its instance was lost before its Node joined. An instance
// that was stopped or deleted from outside, or failed after it was created, never joins, so its
// pods need not wait for the timeout. If the provider cannot answer, the claim is kept.
func (s *pass) deleteUnjoined(ctx context.Context) error {
	launched := s.StatusConditions().Get(karpv1.ConditionTypeLaunched)
	if s.node != nil || !launched.IsTrue() || kube.ConditionTrue(s.claim, karpv1.ConditionTypeRegistered) {
		return nil
	}
	if wait := joinTimeout - time.Since(launched.LastTransitionTime.Time); wait > 0 {
		s.requeue(wait)
		return nil
	}
	s.requeue(recheckEvery)
	instance, err := s.Provider.Get(ctx, s.claim.Status.ProviderID)
	switch {
	case errors.Is(err, provider.ErrNotFound):
	case err != nil:
		s.Log.Error(err, "cannot read the instance of a node that did not join", "nodeclaim", s.claim.Name)
		return nil
	case !instance.State.Lost():
		return nil
	}
	if s.SpotObserver != nil && s.claim.Labels[karpv1.CapacityTypeLabelKey] == karpv1.CapacityTypeSpot {
		s.SpotObserver.SpotReclaimed(kube.OfferingOf(s.claim)) // most likely reclaimed
	}
	s.Log.Info("instance was lost before its node joined, deleting nodeclaim", "nodeclaim", s.claim.Name, "provider-id", s.claim.Status.ProviderID, "state", instance.State)
	return s.deleteClaim(ctx, "interrupted")
}
