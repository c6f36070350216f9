package azure

import (
	"context"
	"errors"
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider/azure/internal/armerr"
	"github.com/karve-dev/karve/provider/azure/internal/armlist"
	"github.com/karve-dev/karve/provider/azure/internal/armtext"
	"github.com/karve-dev/karve/provider/azure/internal/sku"
)

// Names of quotas. Each VM family has one too; see familyBudget.
const (
	budgetRegional    = "regional"        // vCPUs of all on-demand nodes
	budgetLowPriority = "lowPriority"     // vCPUs of all spot nodes
	budgetMachines    = "virtualMachines" // number of virtual machines
)

// familyBudget returns the name of the on-demand vCPU quota of a VM family.
func familyBudget(family string) string { return "family:" + family }

// budgetInWords describes a quota for messages.
func budgetInWords(budget string) string {
	if subnet, ok := strings.CutPrefix(budget, offering.AddressQuota); ok {
		return "the addresses of subnet " + subnet
	}
	return "quota " + budget
}

func reasonOfBudget(budget string) string {
	if strings.HasPrefix(budget, offering.AddressQuota) {
		return armerr.ReasonNetwork
	}
	return armerr.ReasonQuota
}

// usage is one quota: its limit and what is in use.
type usage struct{ limit, used int64 }

// usages is quota by the API's name in lower case: the API's case differs between sizes and
// quotas.
type usages map[string]usage

// quotaReader reads the region's quota.
type quotaReader struct {
	arm                    *arm.Client
	decoder                *armlist.Decoder
	subscription, location string
}

// usagesVersion is the API version of the SDK's client for quota.
const usagesVersion = "2026-04-01"

func (r *quotaReader) read(ctx context.Context) (usages, error) {
	link := runtime.JoinPaths(r.arm.Endpoint(), "subscriptions", url.PathEscape(r.subscription),
		"providers/Microsoft.Compute/locations", url.PathEscape(r.location), "usages") + "?api-version=" + usagesVersion
	list, _, err := armlist.All[armcompute.Usage](ctx, r.arm, r.decoder, link)
	if err != nil {
		return nil, err
	}
	out := usages{}
	for _, u := range list {
		if u.Name != nil && u.Limit != nil && u.CurrentValue != nil {
			out[strings.ToLower(armtext.Of(u.Name.Value))] = usage{limit: limitOf(*u.Limit), used: int64(*u.CurrentValue)}
		}
	}
	if len(out) == 0 {
		return nil, errors.New("the region reports no quota at all")
	}
	return out, nil
}

// limitOf returns the limit; a negative one means no limit.
func limitOf(limit int64) int64 {
	if limit < 0 {
		return math.MaxInt64
	}
	return limit
}

// of returns the quota of that name.
func (u usages) of(budget string) (usage, bool) {
	key := strings.ToLower(strings.TrimPrefix(budget, "family:"))
	switch budget {
	case budgetRegional:
		key = "cores"
	case budgetLowPriority:
		key = "lowprioritycores"
	}
	quota, ok := u[key]
	return quota, ok
}

// unlisted returns the VM families among the quota names that the last reading of the quota
// lacks, sorted. Their nodes are launched without regard to it.
func (u usages) unlisted(budgets []string) []string {
	if len(u) == 0 {
		return nil // there is no reading, which is reported elsewhere
	}
	var out []string
	for _, b := range budgets {
		family, of := strings.CutPrefix(b, "family:")
		if _, ok := u.of(b); of && !ok {
			out = append(out, family)
		}
	}
	slices.Sort(out)
	return out
}

// sameLimits compares the limits, which can make a size unavailable for good. The version of a
// catalog depends on them, and not on what is in use.
func (u usages) sameLimits(v usages) bool {
	return maps.EqualFunc(u, v, func(a, b usage) bool { return a.limit == b.limit })
}

// ledger records what was launched and deleted since the quota was last read, so that concurrent
// launches do not exceed it.
type ledger struct {
	mu      sync.Mutex
	entries map[string]entry // by virtual machine name
	dirty   bool             // something changed since the last call of active

	// sums adds up the entries that a reading of the quota at time then does not include; nil
	// when it must be computed again.
	sums map[string]int64
	then time.Time
}

// An entry is the quota use of one virtual machine. Until it is settled (Azure has answered) no
// reading of the quota is known to include it.
type entry struct {
	draws   []offering.QuotaUse
	settled time.Time // zero while the request is in flight
	credit  bool      // the virtual machine was deleted
}

func newLedger() *ledger { return &ledger{entries: map[string]entry{}} }

// reserve takes the quota use out of what is left, or returns the name of the quota that is too
// small.
func (l *ledger) reserve(machine string, draws []offering.QuotaUse, quota usages, taken time.Time) (short string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(machine)
	sums := l.outstanding(taken)
	for _, d := range draws {
		q, known := quota.of(d.Quota)
		if known && clampQuota(q.limit)-q.used-sums[d.Quota] < d.Amount {
			return d.Quota, false
		}
	}
	l.enter(machine, entry{draws: draws})
	return "", true
}

// settle records that Azure accepted the creation at the given time.
func (l *ledger) settle(machine string, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, ok := l.entries[machine]; ok {
		e.settled = at
		l.enter(machine, e)
	}
}

// cancel removes the entry of a creation that was refused.
func (l *ledger) cancel(machine string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(machine)
}

// credit frees the quota of a virtual machine at the time it was found gone.
func (l *ledger) credit(machine string, draws []offering.QuotaUse, at time.Time) {
	if len(draws) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, ok := l.entries[machine]; ok && !e.credit {
		l.forget(machine) // created and deleted between two readings
		return
	}
	l.enter(machine, entry{draws: draws, settled: at, credit: true})
}

// left returns what remains of each quota.
func (l *ledger) left(budgets []string, quota usages, taken time.Time) map[string]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	sums := l.outstanding(taken)
	left := make(map[string]int64, len(budgets))
	for _, name := range budgets {
		if q, ok := quota.of(name); ok {
			left[name] = max(0, clampQuota(q.limit)-q.used-sums[name])
		}
	}
	return left
}

// clampQuota keeps "unlimited" (the API reports MaxInt64) away from overflow.
func clampQuota(n int64) int64 { return min(n, math.MaxInt64/4) }

func (l *ledger) enter(machine string, e entry) {
	l.forget(machine)
	l.entries[machine], l.dirty = e, true
	if e.heldBy(l.then) {
		l.sums = nil
	}
	e.addTo(l.sums, 1)
}

func (l *ledger) forget(machine string) {
	if e, ok := l.entries[machine]; ok {
		delete(l.entries, machine)
		e.addTo(l.sums, -1)
	}
}

// heldBy reports whether a reading of the quota at that time includes the entry.
func (e entry) heldBy(taken time.Time) bool { return !e.settled.IsZero() && e.settled.Before(taken) }

// addTo adds the entry n times; sums may be nil.
func (e entry) addTo(sums map[string]int64, n int64) {
	if sums == nil {
		return
	}
	if e.credit {
		n = -n
	}
	for _, d := range e.draws {
		sums[d.Quota] += n * d.Amount
	}
}

// outstanding returns the sums for a reading, and drops the entries that it includes.
func (l *ledger) outstanding(taken time.Time) map[string]int64 {
	if l.sums != nil && l.then.Equal(taken) {
		return l.sums
	}
	l.sums, l.then = map[string]int64{}, taken
	for machine, e := range l.entries {
		if e.heldBy(taken) {
			delete(l.entries, machine)
			continue
		}
		e.addTo(l.sums, 1)
	}
	return l.sums
}

// active reports whether anything changed since its last call, or entries remain.
func (l *ledger) active() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.dirty || len(l.entries) > 0
	l.dirty = false
	return was
}

// quotaUses returns the quota use of one node. Spot has a quota of its own and does not use that of
// the family and the region.
func quotaUses(s *sku.SKU, capacityType string) []offering.QuotaUse {
	if capacityType == offering.Spot {
		return []offering.QuotaUse{{Quota: budgetLowPriority, Amount: s.VCPUs}, {Quota: budgetMachines, Amount: 1}}
	}
	return []offering.QuotaUse{
		{Quota: familyBudget(s.Family), Amount: s.VCPUs},
		{Quota: budgetRegional, Amount: s.VCPUs},
		{Quota: budgetMachines, Amount: 1},
	}
}
