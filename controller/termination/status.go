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

// reportAfter is how long the termination of an instance may fail before an event reports it:
// short failures of the cloud need no attention.
const reportAfter = time.Minute

// reportFailure records in the claim's status why its instance cannot be terminated; the instance
// costs money until it is. If the cloud accepted the termination before, the condition is kept and
// an event reports the failure.
func reportFailure(ctx context.Context, c client.Client, recorder *events.Recorder, claim *karpv1.NodeClaim, failure error) error {
	condition := claim.StatusConditions().Get(karpv1.ConditionTypeInstanceTerminating)
	if condition != nil && (condition.IsTrue() || condition.Reason == reasonFailed) && time.Since(condition.LastTransitionTime.Time) >= reportAfter {
		recorder.Publish(events.Event{About: claim, Warning: true, Reason: reasonFailed, Message: failure.Error(), Key: reasonFailed})
	}
	if condition.IsTrue() {
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
