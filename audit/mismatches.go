// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// mismatches judges that a Node has a NodeClaim, and a NodeClaim a VM, or go soon (L3). That a VM has a
// NodeClaim is S1.
type mismatches struct {
	bench
	unclaimed overdue // Nodes without a NodeClaim, by UID
	lost      overdue // NodeClaims without a VM, by UID
}

func newMismatches(b bench) *mismatches {
	return &mismatches{bench: b, unclaimed: newOverdue(), lost: newOverdue()}
}

func (j *mismatches) node(at time.Time, _ *corev1.Node, x *node) { j.compare(at, x) }

func (j *mismatches) compare(at time.Time, x *node) {
	j.unclaimed.set(string(x.UID), at, x.lives() && x.managed() && j.cluster.claimOf(x) == nil)
}

// claim compares its Node anew, or the one whose it was.
func (j *mismatches) claim(at time.Time, _ *karpv1.NodeClaim, x *claim) {
	if !x.lives() {
		j.lost.set(string(x.UID), at, false)
	}
	if n := j.cluster.nodesByName[x.Status.NodeName]; n != nil {
		j.compare(at, n)
	}
	for uid := range j.unclaimed.since {
		if n := j.cluster.nodes[types.UID(uid)]; n != nil {
			j.compare(at, n)
		}
	}
}

// cloud compares NodeClaims with a list. A VM that was created after the list was made, or whose NodeClaim
// says so first, is missing for a moment.
func (j *mismatches) cloud(at time.Time, resources []Resource) {
	listed := map[string]bool{}
	for _, r := range resources {
		if r.Kind == VM {
			listed[r.key()] = true
		}
	}
	for uid, x := range j.cluster.claims {
		id := resourceKey(x.Status.ProviderID)
		j.lost.set(string(uid), at, x.lives() && id != "" && !listed[id])
	}
	for _, uid := range j.lost.late(at, j.settings.MismatchBound+j.settings.CloudLag) {
		x, since := j.cluster.claims[types.UID(uid)], j.lost.since[uid]
		j.violation("L3", x.name(), since, fmt.Sprintf("its VM %s has been missing from the cloud's list for %s: the NodeClaim and its Node should have gone",
			x.Status.ProviderID, at.Sub(since).Round(time.Second)))
	}
}

func (j *mismatches) check(at time.Time) {
	for _, uid := range j.unclaimed.late(at, j.settings.MismatchBound) {
		x, since := j.cluster.nodes[types.UID(uid)], j.unclaimed.since[uid]
		if x == nil || j.cluster.saysUnclaimed(at, x.UID) {
			continue
		}
		j.violation("L3", x.name(), since, fmt.Sprintf("it has had no NodeClaim for %s (provider ID %q): it should have been deleted",
			at.Sub(since).Round(time.Second), x.Spec.ProviderID))
	}
	for uid := range j.lost.since {
		if j.cluster.claims[types.UID(uid)] == nil {
			j.lost.set(uid, at, false)
		}
	}
}

func (j *mismatches) disturbed(at time.Time) {
	j.unclaimed.disturb(at)
	j.lost.disturb(at)
}
