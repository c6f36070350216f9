package azure

import (
	"errors"

	"github.com/karve-dev/karve/provider"
)

// createFailed is the reason of a failed launch that has no more specific reason.
const createFailed = "CreateInstanceFailed"

// createReasons are the names that Karpenter's provider for Azure gives to refusals, as reasons
// of the condition Launched.
var createReasons = map[kind]string{
	familyQuota:          "SubscriptionQuotaReached",
	regionalQuota:        "SubscriptionQuotaReached",
	spotQuota:            "SubscriptionQuotaReached",
	machineQuota:         "SubscriptionQuotaReached",
	allocation:           "AllocationFailure",
	zonalAllocation:      "ZonalAllocationFailure",
	overconstrainedZonal: "OverconstrainedZonalAllocationFailure",
	overconstrained:      "OverconstrainedAllocationFailure",
	skuNotAvailable:      "SKUNotAvailable",
	sizeNotSupported:     "SKUNotAvailable",
	spotTerms:            "SKUNotAvailable",
}

// named sets the reason of a launch's error. When several offerings were refused, the first
// counts, which was preferred.
func named(err error) error {
	var capacity *provider.CapacityError
	switch {
	case err == nil, errors.As(err, new(*provider.NotReadyError)), errors.As(err, new(*provider.LaunchError)):
		return err
	case errors.As(err, &capacity):
		if len(capacity.Attempts) > 0 {
			capacity.Reason = reasonOfAttempt(capacity.Attempts[0])
		}
		return err
	}
	return &provider.LaunchError{Reason: reasonOfKind(classify(err).kind), Err: err}
}

func reasonOfKind(k kind) string {
	if reason, ok := createReasons[k]; ok {
		return reason
	}
	return createFailed
}

// reasonOfAttempt also handles offerings that karve skipped without a request.
func reasonOfAttempt(a provider.Attempt) string {
	reason := reasonOfKind(meaningOf(a.Code, a.Detail).kind)
	switch {
	case reason != createFailed:
		return reason
	case a.Reason == reasonQuota:
		return "SubscriptionQuotaReached"
	case a.Reason == reasonRestricted && (a.Code == "NotOffered" || a.Code == "NotAvailable"):
		return "SKUNotAvailable"
	}
	return createFailed
}
