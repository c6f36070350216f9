// SPDX-License-Identifier: Apache-2.0

package azure

import (
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
// renewed.
func limited(in *arm.ClientOptions, buckets *ratelimit.Buckets, renewal *token.Renewal) *arm.ClientOptions {
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
	out.PerRetryPolicies = append(slices.Clip(out.PerRetryPolicies), buckets.Policy(), renewal)
	return &out
}

// A rateLimiter reserves requests before they are sent, so that no worker blocks on one that would
// have to wait for Azure's rate limits. A later call repeats a request that may not be sent now.
type rateLimiter struct{ limits *ratelimit.Buckets }

// createDelay returns how long the write that creates a virtual machine has to wait; zero means
// none.
func (r rateLimiter) createDelay(vm string, urgent bool) (wait time.Duration) {
	priority := ratelimit.Create
	if urgent {
		priority = ratelimit.Replace
	}
	return r.limits.Ticket(vm, priority, ratelimit.ARMWrites, ratelimit.PutVM)
}

// cancelCreate gives back the reservation for a creation that is not needed any more.
func (r rateLimiter) cancelCreate(vm string) { r.limits.Drop(vm, ratelimit.PutVM) }

// mayDelete reports whether a virtual machine may be deleted now.
func (r rateLimiter) mayDelete(vm string) bool {
	return r.limits.Ticket(vm, ratelimit.StopLeak, ratelimit.ARMDeletes, ratelimit.DeleteVM) == 0
}

// mayDeleteResource reports whether an interface or a disk may be deleted now.
func (r rateLimiter) mayDeleteResource(name string) bool {
	return r.limits.Ticket(name, ratelimit.StopLeak, ratelimit.ARMDeletes) == 0
}

// mayRead reports whether a virtual machine may be read now, before its deletion.
func (r rateLimiter) mayRead(vm string) bool {
	return r.limits.Ticket(vm, ratelimit.StopLeak, ratelimit.ARMReads, ratelimit.GetVM) == 0
}

// mayReadLate reports whether a late virtual machine may be read now, at priority Read.
func (r rateLimiter) mayReadLate(vm string) bool {
	return r.limits.Ticket(vm, ratelimit.Read, ratelimit.ARMReads, ratelimit.GetVM) == 0
}

// updateDelay returns how long reading and changing a virtual machine, and changing its interface,
// has to wait; zero means none. It is not urgent, so it has the lowest priority.
func (r rateLimiter) updateDelay(vm, nic string) time.Duration {
	wait := max(r.limits.Ticket(vm, ratelimit.Upkeep, ratelimit.ARMWrites, ratelimit.UpdateVM),
		r.limits.Ticket(vm, ratelimit.Upkeep, ratelimit.ARMReads, ratelimit.GetVM))
	if nic == "" {
		return wait
	}
	return max(wait, r.limits.Ticket(nic, ratelimit.Upkeep, ratelimit.ARMWrites))
}

// updateAKSDelay returns how long changing an AKS machine has to wait; zero means none.
func (r rateLimiter) updateAKSDelay(handle string) time.Duration {
	return r.limits.Ticket(handle, ratelimit.Upkeep, ratelimit.ARMWrites, ratelimit.AKS)
}
