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
	ref := onDemand("Standard_D2s_v5", "eastus-1")
	quota := "exceeding approved standardDSv5Family Cores quota. Current Limit: 10"
	for _, test := range []struct {
		code, message string
		ref           offering.Ref
		want          string
	}{
		{"OperationNotAllowed", quota, ref, "SubscriptionQuotaReached"},
		{"OperationNotAllowed", "exceeding approved LowPriorityCores quota", spot("Standard_D2s_v5", "eastus-1"), "SubscriptionQuotaReached"},
		{"SkuNotAvailable", "The requested size is currently not available", ref, "SKUNotAvailable"},
		{"ZonalAllocationFailed", "Allocation failed.", ref, "ZonalAllocationFailure"},
		{"AllocationFailed", "Allocation failed.", ref, "AllocationFailure"},
		{"OverconstrainedZonalAllocationRequest", "Allocation failed.", ref, "OverconstrainedZonalAllocationFailure"},
		{"OverconstrainedAllocationRequest", "Allocation failed.", ref, "OverconstrainedAllocationFailure"},
		{"SomethingNew", "Nobody knows.", ref, "CreateInstanceFailed"},
	} {
		r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small()
		r.fault(t, azureemulator.Fault{Method: "PUT", Path: vmPath, Status: 409, Code: test.code, Message: test.message})
		p := r.provider(t)
		for _, when := range []string{"refused", "remembered"} {
			_, err := p.Launch(t.Context(), claim("a", test.ref))
			var capacity *provider.CapacityError
			if !errors.As(err, &capacity) || capacity.Reason != test.want {
				t.Errorf("%s, %s: %+v (%v), want %s", test.code, when, capacity, err, test.want)
			}
		}
	}
	r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small()
	r.fault(t, azureemulator.Fault{Method: "PUT", Path: vmPath, Status: 403, Code: "AuthorizationFailed", Message: "no"})
	_, err := r.provider(t).Launch(t.Context(), claim("a", ref))
	var failed *provider.LaunchError
	if !errors.As(err, &failed) || failed.Reason != "CreateInstanceFailed" {
		t.Errorf("a missing permission: %v", err)
	}
}
