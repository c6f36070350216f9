// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/disrupt"
)

// DueCauses lists the causes for which a claim's node must be replaced at any cost, oldest first.
// soft says that its pool has soft expiry (SoftExpiry).
func DueCauses(c *karpv1.NodeClaim, soft bool, now time.Time) []disrupt.DueCause {
	var due []disrupt.DueCause
	for i := range c.Status.Conditions {
		condition := &c.Status.Conditions[i]
		if isDue(condition.Type) && condition.Status == metav1.ConditionTrue {
			due = append(due, disrupt.DueCause{Cause: disrupt.Drifted, Detail: condition.Reason, Since: condition.LastTransitionTime.Time})
		}
	}
	if at, expires := ExpiresAt(c); soft && expires && !now.Before(at) {
		due = append(due, disrupt.DueCause{Cause: disrupt.Expired, Detail: string(disrupt.Expired), Since: at})
	}
	slices.SortStableFunc(due, func(a, b disrupt.DueCause) int { return a.Since.Compare(b.Since) })
	return due
}

// isDue reports whether a condition of that type asks for a replacement. Disruption budgets have
// no reason for unhealthy nodes or for nodes under maintenance; all three count as Drifted,
// since each asks for a replacement by a node as it would be launched now.
func isDue(condition string) bool {
	switch condition {
	case karpv1.ConditionTypeDrifted, ConditionUnhealthy, ConditionMaintenance:
		return true
	}
	return false
}

// ExpiresAt is when a claim expires; false when it never does.
func ExpiresAt(c *karpv1.NodeClaim) (time.Time, bool) {
	if c.Spec.ExpireAfter.Duration == nil {
		return time.Time{}, false
	}
	return c.CreationTimestamp.Add(*c.Spec.ExpireAfter.Duration), true
}

// GracefulRepair reports whether unhealthy nodes of the pool are replaced gracefully while that
// is possible.
func GracefulRepair(pool *karpv1.NodePool) bool {
	return pool != nil && pool.Annotations[RepairAnnotation] == "graceful"
}
