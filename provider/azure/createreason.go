// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"errors"

	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/armerr"
)

// createFailed is the reason of a failed launch that has no more specific reason.
const createFailed = "CreateInstanceFailed"

// createReasons are the names that Karpenter's provider for Azure gives to refusals, as reasons
// of the condition Launched.
var createReasons = map[armerr.Kind]string{
	armerr.FamilyQuota:          "SubscriptionQuotaReached",
	armerr.RegionalQuota:        "SubscriptionQuotaReached",
	armerr.SpotQuota:            "SubscriptionQuotaReached",
	armerr.VMQuota:              "SubscriptionQuotaReached",
	armerr.Allocation:           "AllocationFailure",
	armerr.ZonalAllocation:      "ZonalAllocationFailure",
	armerr.OverconstrainedZonal: "OverconstrainedZonalAllocationFailure",
	armerr.Overconstrained:      "OverconstrainedAllocationFailure",
	armerr.SkuNotAvailable:      "SKUNotAvailable",
	armerr.SizeNotSupported:     "SKUNotAvailable",
	armerr.SpotTerms:            "SKUNotAvailable",
}

// withReason sets the reason of a launch's error. When several offerings were refused, the reason
// of the first counts, because it was preferred.
func withReason(err error) error {
	var capacity *provider.CapacityError
	switch {
	case err == nil, errors.As(err, new(*provider.NotReadyError)), errors.As(err, new(*provider.LaunchError)):
		return err
	case errors.As(err, &capacity):
		if len(capacity.Refused) > 0 {
			capacity.Reason = reasonOfRefused(capacity.Refused[0])
		}
		return err
	}
	return &provider.LaunchError{Reason: reasonOfKind(armerr.Classify(err).Kind), Err: err}
}

func reasonOfKind(k armerr.Kind) string {
	if reason, ok := createReasons[k]; ok {
		return reason
	}
	return createFailed
}

// reasonOfRefused also handles offerings that karve skipped without a request.
func reasonOfRefused(a provider.RefusedOffering) string {
	reason := reasonOfKind(armerr.MeaningOf(a.Code, a.Detail).Kind)
	switch {
	case reason != createFailed:
		return reason
	case a.Reason == armerr.ReasonQuota:
		return "SubscriptionQuotaReached"
	case a.Reason == armerr.ReasonRestricted && (a.Code == "NotOffered" || a.Code == "NotAvailable"):
		return "SKUNotAvailable"
	}
	return createFailed
}
