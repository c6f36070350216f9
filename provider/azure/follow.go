// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/armerr"
	"github.com/karve-dev/karve/provider/azure/internal/armlist"
	"github.com/karve-dev/karve/provider/azure/internal/armtext"
)

// standing finds the claim's virtual machine in the shared list. known is false while no list is
// new enough: after this process has just requested the virtual machine, and while another caller
// reads the list.
func (l *launch) standing(ctx context.Context) (vm *machine, known bool, err error) {
	now := l.p.opts.Now()
	v, err := l.look(ctx, now)
	if err != nil {
		return nil, false, fmt.Errorf("launching %s: %w", l.claim.Name, err)
	}
	if l.again > 0 {
		return nil, false, nil
	}
	l.settleOn(v)
	flight := l.p.inFlight.get(l.name)
	if !flight.asked.IsZero() && !v.Started.After(flight.asked) {
		return nil, false, nil
	}
	vm = v.ByName[l.name]
	switch {
	case vm == nil && flight.leaving:
		l.p.quota.Credit(l.name, flight.draws, now)
		l.p.inFlight.drop(l.name)
	case vm == nil && !flight.asked.IsZero():
		return l.vanished(ctx)
	}
	if vm != nil && tag(vm.Tags, tagClaimUID) != l.claim.UID && !l.p.owner.inherited(vm) {
		return nil, false, fmt.Errorf("launching %s: a VM named %s exists and belongs to claim UID %q, not %q: delete it or the claim", l.claim.Name, l.name, tag(vm.Tags, tagClaimUID), l.claim.UID)
	}
	return vm, true, nil
}

// look returns a view of the virtual machines, or uses one that was read not long ago. A claim
// for which no creation is recorded need not wait until a long list is read: if a virtual
// machine exists all the same, Azure refuses to create a second one of that name. An urgent
// claim accepts any list that this process has read: after a quiet hour the first of many claims
// would otherwise wait for all pages. No call waits here while another reads the list, as
// workers are few: look returns no view then and sets l.again to the time until there is one.
func (l *launch) look(ctx context.Context, now time.Time) (v armlist.View[*machine], err error) {
	if v := l.p.machines.Last(); v.ByName != nil && (l.claim.Urgent || now.Sub(v.Started) < oldView) && l.unheardOf(v) {
		return v, nil
	}
	v, l.again, err = l.p.machines.TrySince(ctx, now.Add(-l.p.pace()))
	return v, err
}

// unheardOf reports whether neither this process nor the list knows a virtual machine of the
// claim.
func (l *launch) unheardOf(v armlist.View[*machine]) bool {
	if l.claim.LaunchState[AnnotationOperation] != "" || l.p.owner.legacy(v, l.claim) != nil {
		return false
	}
	for _, k := range l.p.backends {
		if name := k.handle(l.claim); v.ByName[name] != nil || !l.p.inFlight.get(name).asked.IsZero() {
			return false
		}
	}
	return true
}

// settleOn selects the backend that created the claim's virtual machine. If there is none, the
// backend for new virtual machines stays selected.
func (l *launch) settleOn(v armlist.View[*machine]) {
	if theirs := l.p.owner.legacy(v, l.claim); theirs != nil {
		l.maker, l.name = theirs.maker, theirs.handle
		return
	}
	for _, k := range l.p.backends {
		if name := k.handle(l.claim); v.ByName[name] != nil {
			l.maker, l.name = k, name
			return
		}
	}
}

// vanished reads a virtual machine that was requested and is missing from the list, before
// another is created in its place.
func (l *launch) vanished(ctx context.Context) (*machine, bool, error) {
	vm, err := l.maker.read(ctx, l.name)
	if errors.Is(err, provider.ErrNotFound) {
		l.p.inFlight.drop(l.name)
		return nil, true, nil
	}
	return vm, err == nil, err
}

// follow reports the state of an existing virtual machine.
func (l *launch) follow(ctx context.Context, vm *machine) (provider.Instance, error) {
	switch armtext.Of(vm.Properties.ProvisioningState) {
	case stateFailed:
		return l.failed(ctx)
	case stateDeleting:
		return l.waiting(), nil
	}
	in := l.stands(ctx, vm)
	if in.State == provider.Creating && l.p.late(l.name, vm) {
		return l.chase(ctx, in)
	}
	return in, nil
}

// stands describes a virtual machine that has not failed.
func (l *launch) stands(ctx context.Context, vm *machine) provider.Instance {
	in := l.p.instance(ctx, vm)
	in.LaunchState = l.memory()
	if in.ClaimUID == "" { // inherited
		in.ClaimUID = l.claim.UID
		l.p.describe(ctx, &in, l.claim.Class)
	}
	if armtext.Of(vm.Name) == "" {
		in.ProviderID = "" // its node gets another provider ID, which is not known yet
	}
	if in.State == provider.Running {
		l.arrived(vm)
		return in
	}
	in.RetryAfter = l.p.pace()
	return in
}

// failed finds out why a virtual machine never came up, remembers it, and deletes it so that the
// next call can try the next offering. A virtual machine that runs has not failed, whatever the
// result of an operation on it.
func (l *launch) failed(ctx context.Context) (provider.Instance, error) {
	if !l.maker.mayEnd(l.name) {
		return l.waiting(), nil // reported once the rate limits allow the deletion
	}
	vm, err := l.maker.read(ctx, l.name)
	if errors.Is(err, provider.ErrNotFound) {
		return l.waiting(), nil
	}
	if err != nil {
		return provider.Instance{}, err
	}
	if state(vm) != provider.Failed {
		return l.stands(ctx, vm), nil
	}
	return l.giveBack(ctx, vm, l.maker.why(ctx, l, vm))
}

// arrived records that the virtual machine came up. For a backend whose acceptance is not yet
// Compute's (see final), this is the first sign that Compute accepted it.
func (l *launch) arrived(vm *machine) {
	l.p.arrived(l.name)
	if !l.maker.final() {
		l.granted(imageOf(vm))
	}
}

// giveBack records why a virtual machine failed and deletes it.
func (l *launch) giveBack(ctx context.Context, vm *machine, r armerr.Refusal) (provider.Instance, error) {
	choice := l.p.choiceOf(vm)
	l.heed(r, vm, choice)
	l.p.stockProbes.Lost(l.name)
	l.refused(choice, r.Code, r.Reason(), r.Detail)
	l.p.opts.Log.Info("VM failed", slog.String("claim", l.claim.Name), slog.String("machine", l.name),
		slog.String("size", choice.Type), slog.String("zone", choice.Zone), slog.String("code", r.Code))
	if err := l.p.remove(ctx, vm); err != nil {
		return provider.Instance{}, err
	}
	in := l.waiting()
	in.LaunchState = l.forgotten()
	return in, nil
}

// heed records the reason of a failed virtual machine like a refusal: Compute may refuse later
// what AKS has accepted.
func (l *launch) heed(r armerr.Refusal, vm *machine, choice offering.Ref) {
	if l.mind(r, imageOf(vm), choice) {
		return
	}
	late := failure(r)
	if s := l.in.skus.Value.ByName[choice.Type]; s != nil {
		l.p.stockouts.Learn(late, s, choice.Zone, choice.CapacityType, l.buyer())
	}
	if r.Kind == armerr.OtherRefusal || r.Kind == armerr.Denied {
		l.blame(late)
	}
}

// failure makes sure that the offering of a failed virtual machine is avoided for a while,
// whatever the error code: requesting the same again at once would not help.
func failure(r armerr.Refusal) armerr.Refusal {
	if !r.AboutOffering() {
		r.Kind = armerr.OtherRefusal
	}
	return r
}
