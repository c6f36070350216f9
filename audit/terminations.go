// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// terminations judges that a NodeClaim that is deleted comes to its end (L5): in time after its deadline,
// or, if it has none, after the last pod has left that its drain waits for. It does not judge what karve's
// finalizer does not hold any more, nor what waits for something that the NodeClaim names and karve may
// not force: a volume without a deadline, or a VM that the cloud refuses to delete.
type terminations struct {
	bench
	ending overdue // by the NodeClaim's UID
}

func newTerminations(b bench) *terminations { return &terminations{bench: b, ending: newOverdue()} }

func (j *terminations) claim(at time.Time, _ *karpv1.NodeClaim, x *claim) { j.look(at, x) }

// pod looks at the node's NodeClaim anew: the pod may be the last one.
func (j *terminations) pod(at time.Time, _ *corev1.Pod, x *pod) {
	n := j.cluster.nodesByName[x.Spec.NodeName]
	if n == nil || !n.lives() {
		return
	}
	if c := j.cluster.claimOf(n); c != nil && c.DeletionTimestamp != nil {
		j.look(at, c)
	}
}

func (j *terminations) look(at time.Time, x *claim) {
	held := x.lives() && x.DeletionTimestamp != nil && slices.Contains(x.Finalizers, karpv1.TerminationFinalizer)
	j.ending.set(string(x.UID), at, held && (j.hasDeadline(x) || len(j.cluster.waitedFor(x.Status.NodeName)) == 0) && !excused(x))
}

func (j *terminations) hasDeadline(x *claim) bool { return x.Spec.TerminationGracePeriod != nil }

// excused reports whether the NodeClaim says what it waits for.
func excused(x *claim) bool {
	volumes := x.Spec.TerminationGracePeriod == nil && x.reason(karpv1.ConditionTypeVolumesDetached) == "AwaitingVolumeDetachment"
	return volumes || x.reason(karpv1.ConditionTypeInstanceTerminating) == "TerminationFailed"
}

func (j *terminations) check(at time.Time) {
	for _, uid := range j.ending.late(at, j.settings.TerminationBound) {
		x := j.cluster.claims[types.UID(uid)]
		if x == nil {
			continue
		}
		if grace := x.Spec.TerminationGracePeriod; grace != nil && at.Sub(j.ending.since[uid]) <= grace.Duration+j.settings.TerminationBound {
			j.ending.found[uid] = false // it has longer than others
			continue
		}
		j.violation("L5", x.name(), j.ending.since[uid], fmt.Sprintf("it has been terminating for %s, and %s",
			at.Sub(j.ending.since[uid]).Round(time.Second), j.holds(x)))
	}
}

func (j *terminations) holds(x *claim) string {
	if n := len(j.cluster.waitedFor(x.Status.NodeName)); n > 0 {
		return fmt.Sprintf("%d pods are still on %s", n, x.Status.NodeName)
	}
	return "no pod holds it"
}

func (j *terminations) disturbed(at time.Time) { j.ending.disturb(at) }
