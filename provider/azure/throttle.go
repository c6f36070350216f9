package azure

import (
	"slices"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/ratelimit"
)

// limited returns the client options with every try kept within Azure's limits,
// and with retries that never hold a caller for long. A Retry-After beyond
// MaxRetryDelay is handed to us instead of being waited for, and a launch then
// says when to come back. Tokens that are refused are renewed.
func limited(in *arm.ClientOptions, buckets *ratelimit.Buckets, renewal *renewal) *arm.ClientOptions {
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

// Requests is what was asked of Azure since the provider was made.
func (p *Provider) Requests() provider.Requests { return p.limits.Requests() }

var _ provider.RequestStats = (*Provider)(nil)

// mayBuy asks for the one write that makes a machine. It returns how long to stay
// away when it is not its turn yet, so that no worker waits with the claim in hand.
func (l *launch) mayBuy() (wait time.Duration) {
	priority := ratelimit.Create
	if l.claim.Urgent {
		priority = ratelimit.Replace
	}
	return l.p.limits.Ticket(l.name, priority, ratelimit.ARMWrites, ratelimit.PutVM)
}

// forgetBuying gives back a turn that is not needed any more.
func (p *Provider) forgetBuying(machine string) { p.limits.Drop(machine, ratelimit.PutVM) }

// mayDelete reports whether it is the turn of a machine to be deleted; of the part
// of one, when it is a part. What is not deleted now is on a later call.
func (p *Provider) mayDelete(machine string) bool {
	return p.limits.Ticket(machine, ratelimit.StopLeak, ratelimit.ARMDeletes, ratelimit.DeleteVM) == 0
}

func (p *Provider) mayReclaim(part string) bool {
	return p.limits.Ticket(part, ratelimit.StopLeak, ratelimit.ARMDeletes) == 0
}

// mayLook reports whether it is the turn of a machine to be read before it is deleted.
func (p *Provider) mayLook(machine string) bool {
	return p.limits.Ticket(machine, ratelimit.StopLeak, ratelimit.ARMReads, ratelimit.GetVM) == 0
}

// mayGlance reports whether it is the turn of a machine to be read out of curiosity.
func (p *Provider) mayTryList(machine string) bool {
	return p.limits.Ticket(machine, ratelimit.Read, ratelimit.ARMReads, ratelimit.GetVM) == 0
}

// mayUpdate reports when it is the turn of a machine to be read and changed while it
// runs, and of its interface to be changed; zero means now. Nobody waits for that, so
// it comes after everything else.
func (p *Provider) mayUpdate(machine, nic string) time.Duration {
	wait := max(p.limits.Ticket(machine, ratelimit.Upkeep, ratelimit.ARMWrites, ratelimit.UpdateVM),
		p.limits.Ticket(machine, ratelimit.Upkeep, ratelimit.ARMReads, ratelimit.GetVM))
	if nic == "" {
		return wait
	}
	return max(wait, p.limits.Ticket(nic, ratelimit.Upkeep, ratelimit.ARMWrites))
}
