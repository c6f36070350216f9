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
	ledger   *usageLedger // of the region
	subnets  *subnets
	forecast exhaustionForecast
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
	if addresses := t.subnets.of(subnet); addresses != nil {
		addresses.source.TryEnsure(ctx)
	}
}

// Left returns what remains of the named quotas and of the subnet, and which of them will be used
// up within a day at the present pace.
func (t *Tracker) Left(quotas []string, in Reading, subnet string) (map[string]int64, map[string]provider.Exhaustion) {
	left := t.ledger.left(quotas, in.Value, in.ReadAt)
	maps.Copy(left, t.subnets.of(subnet).left())
	return left, t.forecast.observe(t.now(), left)
}

// SubnetProblem describes why the addresses of a subnet are not known; empty when they are.
func (t *Tracker) SubnetProblem(subnet string) string { return t.subnets.of(subnet).problem() }

// A Holder is a virtual machine that takes quota, by its handle, and the ID of its subnet.
type Holder struct{ VM, Subnet string }

// Reserve takes quota out of the region's and the subnet's, or returns the name of the quota that
// is too small.
func (t *Tracker) Reserve(h Holder, uses []offering.QuotaUse, in Reading) (exceeded string, ok bool) {
	if exceeded, ok := t.ledger.reserve(h.VM, uses, in.Value, in.ReadAt); !ok {
		return exceeded, false
	}
	addresses := t.subnets.of(h.Subnet)
	if addresses == nil {
		return "", true
	}
	known := addresses.source.State()
	if exceeded, ok := addresses.ledger.reserve(h.VM, uses, known.Value, known.ReadAt); !ok {
		t.ledger.cancel(h.VM)
		return exceeded, false
	}
	return "", true
}

// RecordCreated records that the creation was accepted, or may have been.
func (t *Tracker) RecordCreated(h Holder, at time.Time) {
	t.ledger.recordCreated(h.VM, at)
	if addresses := t.subnets.of(h.Subnet); addresses != nil {
		addresses.ledger.recordCreated(h.VM, at)
	}
}

// Cancel cancels the reservation of a creation that was refused or not requested.
func (t *Tracker) Cancel(h Holder) {
	t.ledger.cancel(h.VM)
	if addresses := t.subnets.of(h.Subnet); addresses != nil {
		addresses.ledger.cancel(h.VM)
	}
}

// Credit frees the quota of a virtual machine that is deleted, as was requested at the given time.
func (t *Tracker) Credit(vm string, uses []offering.QuotaUse, requestedAt time.Time) {
	t.ledger.credit(vm, uses, requestedAt)
	for _, addresses := range t.subnets.all() {
		for _, u := range uses {
			if u.Quota == OfSubnet(addresses.subnet) {
				addresses.ledger.credit(vm, uses, requestedAt)
			}
		}
	}
}

// Reread reads quota and addresses again, unless that was done a moment ago. It returns the new
// reading of the region, and whether it or that of the subnet is newer than before.
func (t *Tracker) Reread(ctx context.Context, subnet string, in Reading) (fresh Reading, newer bool, err error) {
	recent := t.now().Add(-5 * time.Second)
	err = t.region.RefreshOlder(ctx, recent)
	fresh = t.region.State()
	newer = fresh.ReadAt.After(in.ReadAt)
	if addresses := t.subnets.of(subnet); addresses != nil {
		before := addresses.source.State().ReadAt
		err = errors.Join(err, addresses.source.RefreshOlder(ctx, recent))
		newer = newer || addresses.source.State().ReadAt.After(before)
	}
	if err != nil && !newer {
		return fresh, false, fmt.Errorf("reading quota and addresses again: %w", err)
	}
	return fresh, newer, nil
}

// How often quota and addresses are read again, and how often while nodes are launched or
// deleted.
const (
	regionEvery   = 10 * time.Minute
	subnetsEvery  = 3 * time.Minute
	whileChanging = time.Minute
)

// KeepRegionFresh checks every minute whether the region's quota has to be read again, until ctx
// ends.
func (t *Tracker) KeepRegionFresh(ctx context.Context) {
	_ = t.region.Ensure(ctx)
	for cached.Pause(ctx, whileChanging) {
		if t.ledger.changedSinceLastCall() || t.now().Sub(t.region.State().ReadAt) >= regionEvery {
			_ = t.region.Refresh(ctx) // the source keeps the error
		}
	}
}

// KeepSubnetsFresh checks every minute whether addresses have to be read again, until ctx ends.
func (t *Tracker) KeepSubnetsFresh(ctx context.Context) {
	for cached.Pause(ctx, whileChanging) {
		for _, addresses := range t.subnets.all() {
			if addresses.ledger.changedSinceLastCall() || t.now().Sub(addresses.source.State().ReadAt) >= subnetsEvery {
				addresses.source.Request(ctx) // does not wait: an error of one subnet must not delay the others
			}
		}
	}
}

// Stop cancels the requests that no caller waits for.
func (t *Tracker) Stop() {
	t.region.Stop()
	for _, addresses := range t.subnets.all() {
		addresses.source.Stop()
	}
}

// DropUnused drops subnets and trends that no node class uses any more.
func (t *Tracker) DropUnused(now time.Time) {
	t.subnets.dropUnused(now)
	t.forecast.dropUnused(now)
}
