// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// launches judges that a NodeClaim gets a Node or is given up (L4).
type launches struct {
	bench
	unregistered overdue // by UID
}

func newLaunches(b bench) *launches { return &launches{bench: b, unregistered: newOverdue()} }

func (j *launches) claim(at time.Time, _ *karpv1.NodeClaim, x *claim) {
	registered := x.says(karpv1.ConditionTypeRegistered) || !x.initialized.IsZero()
	j.unregistered.set(string(x.UID), at, x.lives() && x.DeletionTimestamp == nil && !registered)
}

func (j *launches) check(at time.Time) {
	for _, uid := range j.unregistered.late(at, j.settings.LaunchBound) {
		x, since := j.cluster.claims[types.UID(uid)], j.unregistered.since[uid]
		j.violation("L4", x.name(), since, fmt.Sprintf("it has been without a Node for %s, and was not given up", at.Sub(since).Round(time.Second)))
	}
}

func (j *launches) disturbed(at time.Time) { j.unregistered.disturb(at) }
