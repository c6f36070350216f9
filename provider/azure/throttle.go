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

// mayBuy asks the rate limiter for the write that creates a virtual machine. It returns how long
// to wait if the limits do not allow it yet, so that no worker blocks on it.
func (l *launch) mayBuy() (wait time.Duration) {
	priority := ratelimit.Create
	if l.claim.Urgent {
		priority = ratelimit.Replace
	}
	return l.p.limits.Ticket(l.name, priority, ratelimit.ARMWrites, ratelimit.PutVM)
}

// forgetBuying returns a ticket that is not needed any more.
func (p *Provider) forgetBuying(machine string) { p.limits.Drop(machine, ratelimit.PutVM) }

// mayDelete reports whether the rate limits allow deleting a virtual machine now. If not, a
// later call does.
func (p *Provider) mayDelete(machine string) bool {
	return p.limits.Ticket(machine, ratelimit.StopLeak, ratelimit.ARMDeletes, ratelimit.DeleteVM) == 0
}

func (p *Provider) mayReclaim(part string) bool {
	return p.limits.Ticket(part, ratelimit.StopLeak, ratelimit.ARMDeletes) == 0
}

// mayLook reports whether the rate limits allow reading a virtual machine before its deletion.
func (p *Provider) mayLook(machine string) bool {
	return p.limits.Ticket(machine, ratelimit.StopLeak, ratelimit.ARMReads, ratelimit.GetVM) == 0
}

// mayTryList reports whether the rate limits allow reading a late virtual machine, at priority
// Read.
func (p *Provider) mayTryList(machine string) bool {
	return p.limits.Ticket(machine, ratelimit.Read, ratelimit.ARMReads, ratelimit.GetVM) == 0
}

// mayUpdate returns when the rate limits allow reading and changing a virtual machine, and
// changing its interface; zero means now. It is not urgent, so it has the lowest priority.
func (p *Provider) mayUpdate(machine, nic string) time.Duration {
	wait := max(p.limits.Ticket(machine, ratelimit.Upkeep, ratelimit.ARMWrites, ratelimit.UpdateVM),
		p.limits.Ticket(machine, ratelimit.Upkeep, ratelimit.ARMReads, ratelimit.GetVM))
	if nic == "" {
		return wait
	}
	return max(wait, p.limits.Ticket(nic, ratelimit.Upkeep, ratelimit.ARMWrites))
}
