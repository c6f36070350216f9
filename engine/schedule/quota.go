// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/reason"
)

// quota is the remaining amounts of the region's quotas and of the subnets' addresses. A quota
// that is not listed is unlimited.
type quota struct {
	left    map[string]int64
	atStart map[string]int64 // before the round launched anything
}

func newQuota(left map[string]int64) quota {
	return quota{left: maps.Clone(left), atStart: left}
}

// nodesAllowed is how many nodes of the offering the quota suffices for.
func (q *quota) nodesAllowed(o *offering.CatalogOffering) int {
	n := math.MaxInt
	for _, d := range o.QuotaUses {
		if left, ok := q.left[d.Quota]; ok && d.Amount > 0 {
			n = min(n, int(max(0, min(left/d.Amount, 1<<30))))
		}
	}
	return n
}

// covers reports whether the quota suffices for one node of the offering once the quota uses in
// returned are released.
func (q *quota) covers(o *offering.CatalogOffering, returned []offering.QuotaUse) bool {
	for _, d := range o.QuotaUses {
		left, ok := q.left[d.Quota]
		if !ok {
			continue
		}
		for _, r := range returned {
			if r.Quota == d.Quota {
				left += r.Amount
			}
		}
		if d.Amount > left {
			return false
		}
	}
	return true
}

// coveredAtStart reports whether there was quota for the offering before this plan.
func (q *quota) coveredAtStart(o *offering.CatalogOffering) bool {
	return !slices.ContainsFunc(o.QuotaUses, func(d offering.QuotaUse) bool {
		left, ok := q.atStart[d.Quota]
		return ok && d.Amount > left
	})
}

// take takes the quota use of n nodes of the offering out of the quota. A negative n returns
// it.
func (q *quota) take(o *offering.CatalogOffering, n int64) {
	for _, d := range o.QuotaUses {
		if _, ok := q.left[d.Quota]; ok {
			q.left[d.Quota] -= n * d.Amount
		}
	}
}

// isShortFor reports whether a quota of that kind (Quota or Addresses) has too little left for
// the offering.
func (q *quota) isShortFor(o *offering.CatalogOffering, kind reason.Reason) bool {
	return slices.ContainsFunc(o.QuotaUses, func(d offering.QuotaUse) bool {
		left, limited := q.left[d.Quota]
		return limited && left < d.Amount && reasonForQuota(d.Quota) == kind
	})
}

// reasonForQuota is the reason for which a quota excludes offerings.
func reasonForQuota(name string) reason.Reason {
	if strings.HasPrefix(name, offering.AddressQuota) {
		return reason.Addresses
	}
	return reason.Quota
}
