// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/write"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/internal/panics"
	"github.com/karve-dev/karve/kube"
)

// podEventEvery bounds how often the last pod event of a node is written.
const podEventEvery = 10 * time.Second

// writeConditions keeps the status of NodeClaims up to date: when a pod was last bound or removed,
// and whether that is long enough ago for consolidation.
func writeConditions(ctx context.Context, c client.Client, v *view) error {
	var group panics.Group
	group.SetLimit(maxNodesAtOnce)
	for i := range v.nodes {
		n := &v.nodes[i]
		pool, ok := v.pools[n.Pool]
		seen := v.byClaim[n.Key]
		if !ok || deletedOrDeleting(seen) {
			continue
		}
		_, quiet := disrupt.Consolidatable(n, &pool, v.now)
		at := podEventToWrite(seen, v.now)
		if at.IsZero() && quiet == kube.ConditionTrue(seen.Claim, karpv1.ConditionTypeConsolidatable) {
			continue
		}
		group.Go(func() error {
			claim := seen.Claim.DeepCopy()
			setPodEvent(claim, at)
			setConsolidatable(claim, quiet)
			return write.IgnoreConflict(write.Status(ctx, c, claim, seen.Claim)) // the next round sees the newer claim
		})
	}
	return group.Wait()
}

// podEventToWrite is the time of the last pod event, zero when it need not be written yet.
func podEventToWrite(node kube.ManagedNode, now time.Time) time.Time {
	written := node.Claim.Status.LastPodEventTime.Time
	seen := node.Activity.Truncate(time.Second) // the resolution of the API
	if !seen.After(written) || seen.Sub(written) < podEventEvery && now.Sub(seen) < podEventEvery {
		return time.Time{}
	}
	return seen
}

func setPodEvent(claim *karpv1.NodeClaim, at time.Time) {
	if !at.IsZero() {
		claim.Status.LastPodEventTime = metav1.NewTime(at)
	}
}

func setConsolidatable(claim *karpv1.NodeClaim, quiet bool) {
	if quiet {
		claim.StatusConditions().SetTrue(karpv1.ConditionTypeConsolidatable)
		return
	}
	_ = claim.StatusConditions().Clear(karpv1.ConditionTypeConsolidatable) // fails for dependents only
}
