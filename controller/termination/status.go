// SPDX-License-Identifier: Apache-2.0

package termination

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/events"
	"github.com/karve-dev/karve/controller/write"
)

// reasonFailed is the reason when an instance that should be terminated still exists.
const reasonFailed = "TerminationFailed"

// unsaid is how long the termination of an instance may fail before an event reports it: short
// failures of the cloud need no attention.
const unsaid = time.Minute

// sayFailing records in the claim's status why its instance cannot be terminated; the instance
// costs money until it is. If the cloud accepted the termination before, the condition is kept and
// an event reports the failure.
func sayFailing(ctx context.Context, c client.Client, recorder *events.Recorder, claim *karpv1.NodeClaim, failure error) error {
	said := claim.StatusConditions().Get(karpv1.ConditionTypeInstanceTerminating)
	if said != nil && (said.IsTrue() || said.Reason == reasonFailed) && time.Since(said.LastTransitionTime.Time) >= unsaid {
		recorder.Publish(events.Event{About: claim, Warning: true, Reason: reasonFailed, Message: failure.Error(), Key: reasonFailed})
	}
	if said.IsTrue() {
		return nil
	}
	return patchStatus(ctx, c, claim, func() {
		claim.StatusConditions().SetUnknownWithReason(karpv1.ConditionTypeInstanceTerminating, reasonFailed, failure.Error())
	})
}

// patchStatus writes the changes that change makes to the claim's status, if it makes any.
func patchStatus(ctx context.Context, c client.Client, claim *karpv1.NodeClaim, change func()) error {
	stored := claim.DeepCopy()
	change()
	return write.Status(ctx, c, claim, stored)
}
