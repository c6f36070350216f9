// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"slices"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/karve-dev/karve/provider"
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

// Requests counts the requests to Azure since New.
func (p *Provider) Requests() provider.Requests { return p.limits.Requests() }

var _ provider.RequestStats = (*Provider)(nil)

// A tickets asks the rate limiter for requests before they are sent, so that no worker blocks on
// one that would have to wait. A request that may not be sent now is repeated by a later call.
type tickets struct{ limits *ratelimit.Buckets }

// create returns how long the write that creates a virtual machine has to wait; zero means none.
func (t tickets) create(vm string, urgent bool) (wait time.Duration) {
	priority := ratelimit.Create
	if urgent {
		priority = ratelimit.Replace
	}
	return t.limits.Ticket(vm, priority, ratelimit.ARMWrites, ratelimit.PutVM)
}

// dropCreate returns a ticket for a creation that is not needed any more.
func (t tickets) dropCreate(vm string) { t.limits.Drop(vm, ratelimit.PutVM) }

// mayDelete reports whether a virtual machine may be deleted now.
func (t tickets) mayDelete(vm string) bool {
	return t.limits.Ticket(vm, ratelimit.StopLeak, ratelimit.ARMDeletes, ratelimit.DeleteVM) == 0
}

// mayDeletePart reports whether an interface or a disk may be deleted now.
func (t tickets) mayDeletePart(name string) bool {
	return t.limits.Ticket(name, ratelimit.StopLeak, ratelimit.ARMDeletes) == 0
}

// mayRead reports whether a virtual machine may be read now, before its deletion.
func (t tickets) mayRead(vm string) bool {
	return t.limits.Ticket(vm, ratelimit.StopLeak, ratelimit.ARMReads, ratelimit.GetVM) == 0
}

// mayReadLate reports whether a late virtual machine may be read now, at priority Read.
func (t tickets) mayReadLate(vm string) bool {
	return t.limits.Ticket(vm, ratelimit.Read, ratelimit.ARMReads, ratelimit.GetVM) == 0
}

// update returns how long reading and changing a virtual machine, and changing its interface, has
// to wait; zero means none. It is not urgent, so it has the lowest priority.
func (t tickets) update(vm, nic string) time.Duration {
	wait := max(t.limits.Ticket(vm, ratelimit.Upkeep, ratelimit.ARMWrites, ratelimit.UpdateVM),
		t.limits.Ticket(vm, ratelimit.Upkeep, ratelimit.ARMReads, ratelimit.GetVM))
	if nic == "" {
		return wait
	}
	return max(wait, t.limits.Ticket(nic, ratelimit.Upkeep, ratelimit.ARMWrites))
}

// updateAKS returns how long changing an AKS machine has to wait; zero means none.
func (t tickets) updateAKS(handle string) time.Duration {
	return t.limits.Ticket(handle, ratelimit.Upkeep, ratelimit.ARMWrites, ratelimit.AKS)
}
