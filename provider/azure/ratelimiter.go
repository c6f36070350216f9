// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"context"
	"slices"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/karve-dev/karve/provider/azure/internal/token"
	"github.com/karve-dev/karve/provider/azure/ratelimit"
)

// limited returns client options that keep every attempt within Azure's rate limits, with
// retries that never block a caller for long. A Retry-After beyond MaxRetryDelay is returned
// instead of being waited for, and a launch then reports when to retry. Refused tokens are
// renewed. mayWrite is Options.MayWrite.
func limited(in *arm.ClientOptions, buckets *ratelimit.Buckets, renewal *token.Renewal, mayWrite func(context.Context) error) *arm.ClientOptions {
	out := arm.ClientOptions{}
	if in != nil {
		out = *in
	}
	r := &out.Retry
	if r.MaxRetries == 0 && r.RetryDelay == 0 && r.MaxRetryDelay == 0 && r.TryTimeout == 0 && r.ShouldRetry == nil {
		*r = policy.RetryOptions{MaxRetries: 3, RetryDelay: 500 * time.Millisecond, MaxRetryDelay: 5 * time.Second, TryTimeout: time.Minute}
	}
	if out.Telemetry.ApplicationID == "" {
		out.Telemetry.ApplicationID = "karve"
	}
	out.PerRetryPolicies = append(slices.Clip(out.PerRetryPolicies), buckets.Policy(), renewal, writeCheck{mayWrite}, errorsWithoutQueries{})
	return &out
}

// A rateLimiter reserves requests before they are sent, so that no worker blocks on one that would
// have to wait for Azure's rate limits. A later call repeats a request that may not be sent now.
type rateLimiter struct{ limits *ratelimit.Buckets }

// reserveCreate reserves the write that creates a virtual machine, or returns how long it has to
// wait.
func (r rateLimiter) reserveCreate(vm string, urgent bool) (wait time.Duration) {
	priority := ratelimit.Create
	if urgent {
		priority = ratelimit.Replace
	}
	return r.limits.Ticket(vm, priority, ratelimit.ARMWrites, ratelimit.PutVM)
}

// cancelCreate gives back the reservation for a creation that is not needed any more.
func (r rateLimiter) cancelCreate(vm string) { r.limits.Drop(vm, ratelimit.PutVM) }

// reserveDelete reserves the deletion of a virtual machine; false: not now, call again.
func (r rateLimiter) reserveDelete(vm string) bool {
	return r.limits.Ticket(vm, ratelimit.Delete, ratelimit.ARMDeletes, ratelimit.DeleteVM) == 0
}

// reserveDeleteResource reserves the deletion of an interface or a disk; false: not now, call
// again.
func (r rateLimiter) reserveDeleteResource(name string) bool {
	return r.limits.Ticket(name, ratelimit.Delete, ratelimit.ARMDeletes) == 0
}

// reserveRead reserves the read of a virtual machine before its deletion; false: not now, call
// again.
func (r rateLimiter) reserveRead(vm string) bool {
	return r.limits.Ticket(vm, ratelimit.Delete, ratelimit.ARMReads, ratelimit.GetVM) == 0
}

// reserveLateRead reserves the read of a late virtual machine, at priority Read; false: not now,
// call again.
func (r rateLimiter) reserveLateRead(vm string) bool {
	return r.limits.Ticket(vm, ratelimit.Read, ratelimit.ARMReads, ratelimit.GetVM) == 0
}

// reserveUpdate reserves reading and changing a virtual machine, and changing its interface, or
// returns how long that has to wait. It is not urgent, so it has the lowest priority.
func (r rateLimiter) reserveUpdate(vm, nic string) time.Duration {
	wait := max(r.limits.Ticket(vm, ratelimit.Upkeep, ratelimit.ARMWrites, ratelimit.UpdateVM),
		r.limits.Ticket(vm, ratelimit.Upkeep, ratelimit.ARMReads, ratelimit.GetVM))
	if nic == "" {
		return wait
	}
	return max(wait, r.limits.Ticket(nic, ratelimit.Upkeep, ratelimit.ARMWrites))
}

// reserveAKSUpdate reserves changing an AKS machine, or returns how long that has to wait.
func (r rateLimiter) reserveAKSUpdate(handle string) time.Duration {
	return r.limits.Ticket(handle, ratelimit.Upkeep, ratelimit.ARMWrites, ratelimit.AKS)
}
