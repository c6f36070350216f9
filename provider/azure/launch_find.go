// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/armlist"
	"github.com/karve-dev/karve/provider/azure/internal/quota"
)

// A vmFinder finds the virtual machine of a claim in the shared list.
type vmFinder struct {
	vms      *vmList
	backends *backends
	inFlight *inFlights
	owner    ownership
	quota    *quota.Tracker
	now      func() time.Time
}

// A foundVM is what the list shows of the virtual machine of a claim.
type foundVM struct {
	backend backend // that created it; if there is none, the one for new virtual machines
	handle  string
	vm      *virtualMachine // nil when there is none
	// decided is false while no list is new enough: after this process has just requested the
	// virtual machine, and while another caller reads the list.
	decided bool
	// retryAfter is the time until the list that another caller reads is ready; zero when no
	// caller reads one.
	retryAfter time.Duration
}

// find finds the virtual machine of a claim. One whose deletion ended is credited to the quota and
// forgotten. Backend and handle are valid after an error, too.
func (f *vmFinder) find(ctx context.Context, claim provider.Claim) (foundVM, error) {
	first, now := f.backends.all[0], f.now()
	found := foundVM{backend: first, handle: first.handle(claim)}
	v, retryAfter, err := f.view(ctx, claim, now)
	if err != nil {
		return found, fmt.Errorf("launching %s: %w", claim.Name, err)
	}
	if retryAfter > 0 {
		found.retryAfter = retryAfter
		return found, nil
	}
	f.selectBackend(&found, v, claim)
	flight := f.inFlight.get(found.handle)
	if !flight.requestedAt.IsZero() && !v.Started.After(flight.requestedAt) {
		return found, nil
	}
	found.vm = v.ByName[found.handle]
	switch {
	case found.vm == nil && flight.deleting:
		f.quota.Credit(found.handle, flight.quotaUses, flight.requestedAt)
		f.inFlight.remove(found.handle)
	case found.vm == nil && !flight.requestedAt.IsZero():
		return f.readMissing(ctx, found)
	}
	if vm := found.vm; vm != nil && tag(vm.Tags, tagClaimUID) != claim.UID && !f.owner.inherited(vm) {
		return found, fmt.Errorf("launching %s: a VM named %s exists and belongs to claim UID %q, not %q: delete it or the claim", claim.Name, found.handle, tag(vm.Tags, tagClaimUID), claim.UID)
	}
	found.decided = true
	return found, nil
}

// view returns the last list of virtual machines if it is new enough for the claim, and
// otherwise reads one. A claim for which no creation is recorded need not wait until a long list
// is read: if a virtual machine exists all the same, Azure refuses to create a second one of
// that name. An urgent claim accepts any list that this process has read: after a quiet hour the
// first of many claims would otherwise wait for all pages. No call waits here while another
// reads the list, as workers are few: view returns no view then, and the time until there is
// one.
func (f *vmFinder) view(ctx context.Context, claim provider.Claim, now time.Time) (v armlist.View[*virtualMachine], retryAfter time.Duration, err error) {
	if v := f.vms.Last(); v.ByName != nil && (claim.Urgent || now.Sub(v.Started) < unrequestedListAge) && f.neverRequested(claim, v) {
		return v, 0, nil
	}
	return f.vms.TryNotOlderThan(ctx, now.Add(-f.vms.maxAgeForLaunch()))
}

// neverRequested reports whether neither this process, nor the claim, nor the list knows a
// virtual machine of the claim.
func (f *vmFinder) neverRequested(claim provider.Claim, v armlist.View[*virtualMachine]) bool {
	if claim.LaunchState[AnnotationOperation] != "" || f.owner.inheritedVM(v, claim) != nil {
		return false
	}
	for _, b := range f.backends.all {
		if handle := b.handle(claim); v.ByName[handle] != nil || !f.inFlight.get(handle).requestedAt.IsZero() {
			return false
		}
	}
	return true
}

// selectBackend selects the backend that created the claim's virtual machine. If there is none,
// the backend for new virtual machines stays selected.
func (f *vmFinder) selectBackend(found *foundVM, v armlist.View[*virtualMachine], claim provider.Claim) {
	if vm := f.owner.inheritedVM(v, claim); vm != nil {
		found.backend, found.handle = f.backends.of(vm), vm.handle
		return
	}
	for _, b := range f.backends.all {
		if handle := b.handle(claim); v.ByName[handle] != nil {
			found.backend, found.handle = b, handle
			return
		}
	}
}

// readMissing reads a virtual machine that was requested and is missing from the list, before
// another is created in its place.
func (f *vmFinder) readMissing(ctx context.Context, found foundVM) (foundVM, error) {
	vm, err := found.backend.read(ctx, found.handle)
	if errors.Is(err, provider.ErrNotFound) {
		f.inFlight.remove(found.handle)
		found.decided = true
		return found, nil
	}
	found.vm, found.decided = vm, err == nil
	return found, err
}
