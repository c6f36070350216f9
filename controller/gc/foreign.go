// SPDX-License-Identifier: Apache-2.0

package gc

import (
	"context"
	"errors"
	"fmt"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/events"
	"github.com/karve-dev/karve/controller/write"
	"github.com/karve-dev/karve/kube"
)

const reasonForeign = "ForeignProviderID"

// splitForeign separates claims whose instance can be in the cloud's list from claims whose
// provider ID belongs to another cloud: no list is incomplete because it lacks the latter.
func (c *Collector) splitForeign(claims []*karpv1.NodeClaim) (own, foreign []*karpv1.NodeClaim) {
	for _, claim := range claims {
		if id := claim.Status.ProviderID; c.Recognizer != nil && id != "" && !c.Recognizer.Recognizes(id) {
			foreign = append(foreign, claim)
			continue
		}
		own = append(own, claim)
	}
	return own, foreign
}

// reportForeign reports on claims that their provider ID is another cloud's, once for each.
func (c *Collector) reportForeign(ctx context.Context, claims []*karpv1.NodeClaim) error {
	var errs []error
	for _, claim := range claims {
		errs = append(errs, c.reportForeignClaim(ctx, claim))
	}
	return errors.Join(errs...)
}

func (c *Collector) reportForeignClaim(ctx context.Context, claim *karpv1.NodeClaim) error {
	stored := claim.DeepCopy()
	text := fmt.Sprintf("Provider ID %q is none that provider %s issues: it can neither find nor terminate the instance. "+
		"Delete the NodeClaim, and its instance where it runs", claim.Status.ProviderID, c.Provider.Name())
	if claim.StatusConditions().Get(kube.ConditionProviderIDRecognized).IsFalse() {
		return nil
	}
	claim.StatusConditions().SetFalse(kube.ConditionProviderIDRecognized, reasonForeign, text)
	if err := write.Status(ctx, c.Client, claim, stored); err != nil {
		return write.IgnoreConflict(err) // the next round retries
	}
	c.Events.Publish(events.Event{About: claim, Warning: true, Reason: reasonForeign, Message: text})
	c.Log.Info("the provider ID of a nodeclaim is of another cloud", "nodeclaim", claim.Name, "provider-id", claim.Status.ProviderID)
	return nil
}
