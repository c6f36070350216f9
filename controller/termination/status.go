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

// reasonFailed is why a machine that should be given back is still there.
const reasonFailed = "TerminationFailed"

// unsaid is how long a machine's end may fail before a person is told: a cloud that
// does not answer for a moment needs nobody.
const unsaid = time.Minute

// sayFailing says on the claim why its machine cannot be given back; it is paid for until it
// is. Where the cloud seemed to have agreed to end it, the condition stays, and the event tells.
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

// patchStatus writes what change does to the claim's status, if it does anything.
func patchStatus(ctx context.Context, c client.Client, claim *karpv1.NodeClaim, change func()) error {
	stored := claim.DeepCopy()
	change()
	return write.Status(ctx, c, claim, stored)
}
