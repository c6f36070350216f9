// SPDX-License-Identifier: Apache-2.0

// Package quota tracks how much quota a subscription has left in a region, and how many addresses
// its subnets have left. Azure reports both late: a Tracker also counts what was launched and
// deleted since the last reading, so that concurrent launches do not exceed a quota. The caller
// decides which offering to launch.
package quota

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/cached"
	"github.com/karve-dev/karve/provider/azure/internal/network"
)

// A Tracker knows the quota of a region and the addresses of its subnets.
type Tracker struct {
	now      func() time.Time
	region   *cached.Source[Usages]
	ledger   *ledger // of the region
	subnets  *subnets
	pressure pressure
}

// A Reading is a reading of a region's quota.
type Reading = cached.State[Usages]

// addressReader returns how many addresses a subnet has, and how many are in use.
type addressReader = func(context.Context, network.SubnetID) (size, used int64, err error)

func NewTracker(region func(context.Context) (Usages, error), subnet addressReader, e cached.Env) *Tracker {
	return &Tracker{
		now:     e.Now,
		region:  &cached.Source[Usages]{Name: "quota", Load: region, Same: Usages.sameLimits, Env: e},
		ledger:  newLedger(),
		subnets: &subnets{Env: e, read: subnet, byID: map[string]*subnetAddresses{}},
	}
}

// Reading returns the last reading of the region's quota.
func (t *Tracker) Reading() Reading { return t.region.State() }

// Ensure waits briefly for the first reading of the region's quota. Without one, quota counts as
// unlimited.
func (t *Tracker) Ensure(ctx context.Context) { t.region.TryEnsure(ctx) }

// EnsureSubnet waits briefly for the first reading of a subnet's addresses.
func (t *Tracker) EnsureSubnet(ctx context.Context, subnet string) {
	if book := t.subnets.of(subnet); book != nil {
		book.source.TryEnsure(ctx)
	}
}

// Left returns what remains of the named quotas and of the subnet, and which of them will be used
// up within a day at the present pace.
func (t *Tracker) Left(quotas []string, in Reading, subnet string) (map[string]int64, map[string]provider.Exhaustion) {
	left := t.ledger.left(quotas, in.Value, in.Taken)
	maps.Copy(left, t.subnets.of(subnet).left())
	return left, t.pressure.observe(t.now(), left)
}

// SubnetProblem describes why the addresses of a subnet are not known; empty when they are.
func (t *Tracker) SubnetProblem(subnet string) string { return t.subnets.of(subnet).problem() }

// A Holder is a virtual machine that takes quota, and the ID of its subnet.
type Holder struct{ VM, Subnet string }

// Reserve takes quota out of the region's and the subnet's, or returns the name of the quota that
// is too small.
func (t *Tracker) Reserve(h Holder, uses []offering.QuotaUse, in Reading) (short string, ok bool) {
	if short, ok := t.ledger.reserve(h.VM, uses, in.Value, in.Taken); !ok {
		return short, false
	}
	book := t.subnets.of(h.Subnet)
	if book == nil {
		return "", true
	}
	known := book.source.State()
	if short, ok := book.ledger.reserve(h.VM, uses, known.Value, known.Taken); !ok {
		t.ledger.cancel(h.VM)
		return short, false
	}
	return "", true
}

// Settle records that the creation was accepted, or may have been.
func (t *Tracker) Settle(h Holder, at time.Time) {
	t.ledger.settle(h.VM, at)
	if book := t.subnets.of(h.Subnet); book != nil {
		book.ledger.settle(h.VM, at)
	}
}

// Cancel cancels the reservation of a creation that was refused or not requested.
func (t *Tracker) Cancel(h Holder) {
	t.ledger.cancel(h.VM)
	if book := t.subnets.of(h.Subnet); book != nil {
		book.ledger.cancel(h.VM)
	}
}

// Credit frees the quota of a virtual machine at the time it was found to be deleted.
func (t *Tracker) Credit(vm string, uses []offering.QuotaUse, at time.Time) {
	t.ledger.credit(vm, uses, at)
	for _, book := range t.subnets.all() {
		for _, u := range uses {
			if u.Quota == OfSubnet(book.subnet) {
				book.ledger.credit(vm, uses, at)
			}
		}
	}
}

// Recount reads quota and addresses again, unless that was done a moment ago. It returns the new
// reading of the region, and whether it or that of the subnet is newer than before.
func (t *Tracker) Recount(ctx context.Context, subnet string, in Reading) (fresh Reading, newer bool, err error) {
	lately := t.now().Add(-5 * time.Second)
	err = t.region.RefreshOlder(ctx, lately)
	fresh = t.region.State()
	newer = fresh.Taken.After(in.Taken)
	if book := t.subnets.of(subnet); book != nil {
		before := book.source.State().Taken
		err = errors.Join(err, book.source.RefreshOlder(ctx, lately))
		newer = newer || book.source.State().Taken.After(before)
	}
	if err != nil && !newer {
		return fresh, false, fmt.Errorf("reading quota and addresses again: %w", err)
	}
	return fresh, newer, nil
}

// How often quota and addresses are read again, and how often while nodes are launched or
// deleted.
const (
	regionEvery  = 10 * time.Minute
	subnetsEvery = 3 * time.Minute
	whileBusy    = time.Minute
)

// KeepRegion checks every minute whether the region's quota has to be read again, until ctx ends.
func (t *Tracker) KeepRegion(ctx context.Context) {
	_ = t.region.Ensure(ctx)
	for cached.Pause(ctx, whileBusy) {
		if t.ledger.active() || t.now().Sub(t.region.State().Taken) >= regionEvery {
			_ = t.region.Refresh(ctx) // the source keeps the error
		}
	}
}

// KeepSubnets checks every minute whether addresses have to be read again, until ctx ends.
func (t *Tracker) KeepSubnets(ctx context.Context) {
	for cached.Pause(ctx, whileBusy) {
		for _, book := range t.subnets.all() {
			if book.ledger.active() || t.now().Sub(book.source.State().Taken) >= subnetsEvery {
				book.source.Request(ctx) // does not wait: an error of one subnet must not delay the others
			}
		}
	}
}

// Stop cancels the requests that no caller waits for.
func (t *Tracker) Stop() {
	t.region.Stop()
	for _, book := range t.subnets.all() {
		book.source.Stop()
	}
}

// Tidy forgets subnets and paces that no node class uses any more.
func (t *Tracker) Tidy(now time.Time) {
	t.subnets.tidy(now)
	t.pressure.tidy(now)
}
