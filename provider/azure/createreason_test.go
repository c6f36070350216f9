// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"errors"
	"testing"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider"
)

// A failed launch has the reason that Karpenter's provider for Azure would give.
//
// Rule LAUNCH-8.
func TestReasonsOfFailedLaunches(t *testing.T) {
	choice := onDemand("Standard_D2s_v5", "eastus-1")
	quota := "exceeding approved standardDSv5Family Cores quota. Current Limit: 10"
	for _, test := range []struct {
		code, message string
		choice        offering.Ref
		want          string
	}{
		{"OperationNotAllowed", quota, choice, "SubscriptionQuotaReached"},
		{"OperationNotAllowed", "exceeding approved LowPriorityCores quota", spot("Standard_D2s_v5", "eastus-1"), "SubscriptionQuotaReached"},
		{"SkuNotAvailable", "The requested size is currently not available", choice, "SKUNotAvailable"},
		{"ZonalAllocationFailed", "Allocation failed.", choice, "ZonalAllocationFailure"},
		{"AllocationFailed", "Allocation failed.", choice, "AllocationFailure"},
		{"OverconstrainedZonalAllocationRequest", "Allocation failed.", choice, "OverconstrainedZonalAllocationFailure"},
		{"OverconstrainedAllocationRequest", "Allocation failed.", choice, "OverconstrainedAllocationFailure"},
		{"SomethingNew", "Nobody knows.", choice, "CreateInstanceFailed"},
	} {
		r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small()
		r.fault(t, azureemulator.Fault{Method: "PUT", Path: vmPath, Status: 409, Code: test.code, Message: test.message})
		p := r.provider(t)
		for _, when := range []string{"refused", "remembered"} {
			_, err := p.Launch(t.Context(), claim("a", test.choice))
			var capacity *provider.CapacityError
			if !errors.As(err, &capacity) || capacity.Reason != test.want {
				t.Errorf("%s, %s: %+v (%v), want %s", test.code, when, capacity, err, test.want)
			}
		}
	}
	r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small()
	r.fault(t, azureemulator.Fault{Method: "PUT", Path: vmPath, Status: 403, Code: "AuthorizationFailed", Message: "no"})
	_, err := r.provider(t).Launch(t.Context(), claim("a", choice))
	var failed *provider.LaunchError
	if !errors.As(err, &failed) || failed.Reason != "CreateInstanceFailed" {
		t.Errorf("a missing permission: %v", err)
	}
}
