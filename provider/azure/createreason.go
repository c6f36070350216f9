package azure

import (
	"errors"

	"github.com/karve-dev/karve/provider"
)

// createFailed is the reason of a launch that failed in a way that has no word of its own.
const createFailed = "CreateInstanceFailed"

// createReasons are the words that Karpenter's provider for Azure has for refusals, as
// reasons of the condition Launched.
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

// named gives a launch's error its reason. What many choices were refused for goes by the
// first, which is the one that was wanted most.
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

// reasonOfAttempt also knows the choices that were not asked for, for reasons of our own.
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
