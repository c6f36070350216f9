// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/armtext"
	"github.com/karve-dev/karve/provider/azure/internal/ctxlock"
	"github.com/karve-dev/karve/provider/azure/internal/quota"
)

// A terminator deletes virtual machines with everything that belongs to them, one step per call.
type terminator struct {
	claims    *ctxlock.ByName // by UID; a launch of the claim takes the lock, too
	vms       *vmList
	backends  *backends
	ids       providerIDs
	owner     ownership
	inFlight  *inFlights
	limiter   rateLimiter
	leftovers *leftoverCollector
	quota     *quota.Tracker
	instances *instanceReader
	failures  *failures
	now       func() time.Time
}

// terminate deletes the virtual machine of a node and, once that does not exist any more, an
// interface or disk that is left. ErrNotFound means that nothing is left.
func (t *terminator) terminate(ctx context.Context, id string) error {
	name, err := t.ids.vmOf(id)
	if err != nil {
		return err
	}
	b, handle := t.backends.byVMName(name)
	v, err := t.vms.NotOlderThan(ctx, t.now().Add(-t.vms.maxAgeForDeletion()))
	if err != nil {
		return fmt.Errorf("terminating %s: %w", handle, err)
	}
	flight := t.inFlight.get(handle)
	if !flight.requestedAt.IsZero() && !v.Started.After(flight.requestedAt) {
		if flight.deleting {
			return nil
		}
		if v, err = t.vms.NotOlderThan(ctx, flight.requestedAt.Add(1)); err != nil {
			return fmt.Errorf("terminating %s: %w", handle, err)
		}
	}
	if vm := v.ByName[handle]; vm != nil {
		return t.deleteListed(ctx, vm)
	}
	return t.deleteUnlisted(ctx, b, handle)
}

// terminateByClaim deletes all resources of a claim. It reads the virtual machine itself and
// not the shared list: the creation may have been a moment ago.
func (t *terminator) terminateByClaim(ctx context.Context, claim provider.Claim) error {
	release, err := t.claims.Lock(ctx, claim.UID)
	if err != nil {
		return err
	}
	defer release()
	for _, b := range t.backends.all {
		if err := t.deleteUnlisted(ctx, b, b.handle(claim)); !errors.Is(err, provider.ErrNotFound) {
			return err
		}
	}
	return t.terminateInherited(ctx, claim)
}

// terminateInherited deletes the virtual machine that Karpenter's provider created for a claim.
func (t *terminator) terminateInherited(ctx context.Context, claim provider.Claim) error {
	v, err := t.vms.NotOlderThan(ctx, t.now().Add(-t.vms.maxAgeForLaunch()))
	if err != nil {
		return fmt.Errorf("terminating %s: %w", claim.Name, err)
	}
	if vm := t.owner.inheritedVM(v, claim); vm != nil {
		return t.deleteListed(ctx, vm)
	}
	return provider.ErrNotFound
}

// deleteListed deletes a virtual machine that the shared list shows. The list may be out of date
// and has no power state, so the virtual machine itself is read first.
func (t *terminator) deleteListed(ctx context.Context, vm *virtualMachine) error {
	if err := t.checkDeletable(vm); err != nil || t.awaitDeletion(vm) {
		return err
	}
	b := t.backends.of(vm)
	if !b.reserveDelete(vm.handle) || !t.limiter.reserveRead(cmp.Or(strings.ToLower(armtext.Of(vm.Name)), vm.handle)) {
		return nil
	}
	vm, err := b.read(ctx, vm.handle)
	if errors.Is(err, provider.ErrNotFound) {
		return nil // the next call deletes its interface and disk
	}
	if err != nil {
		return err
	}
	return t.delete(ctx, vm)
}

// deleteUnlisted deletes a virtual machine that the shared list does not show. The list may be
// older than the virtual machine, or incomplete, so the virtual machine itself is read: the caller
// gives it up once this returns ErrNotFound.
func (t *terminator) deleteUnlisted(ctx context.Context, b backend, handle string) error {
	t.limiter.cancelCreate(handle)
	f := t.inFlight.get(handle)
	if f.missing {
		return t.deleteLeftovers(ctx, handle)
	}
	if !t.limiter.reserveRead(cmp.Or(f.vmName, handle)) { // read reads the virtual machine if there is one
		return nil
	}
	vm, err := b.read(ctx, handle)
	if errors.Is(err, provider.ErrNotFound) {
		return t.deleteLeftovers(ctx, handle)
	}
	if err != nil {
		return err
	}
	return t.delete(ctx, vm)
}

// delete deletes a virtual machine that belongs to karve and is not being deleted yet. The caller
// has just read it.
func (t *terminator) delete(ctx context.Context, vm *virtualMachine) error {
	if err := t.checkDeletable(vm); err != nil || t.awaitDeletion(vm) {
		return err
	}
	if err := t.requestDeletion(ctx, vm); err != nil || !t.inFlight.get(vm.handle).deleting {
		return err
	}
	if state(vm) == provider.Failed {
		t.failures.recordFailed(vm)
	}
	return nil
}

// checkDeletable returns an error for virtual machines that karve must not delete.
func (t *terminator) checkDeletable(vm *virtualMachine) error {
	if !t.owner.ours(vm) {
		return fmt.Errorf("terminating %s: the VM does not carry the tags of cluster %s, so karve does not delete it", vm.handle, t.owner.cluster)
	}
	if !vm.inPool && madeByAKS(vm) {
		return fmt.Errorf("terminating %s: it belongs to an AKS pool of mode Machines that karve does not know: name the pool with --aks-machines-pool-name, or delete the machine with az aks nodepool delete-machines", vm.handle)
	}
	return nil
}

// deletionStuckAfter is how long a deletion may take before it is requested again: far longer
// than deletions take, and rarely enough to do no harm.
const deletionStuckAfter = 10 * time.Minute

// awaitDeletion reports whether to wait for a deletion that is under way, and records when it was
// first seen if this process did not request it. It is false for a stuck deletion: Azure may have
// lost it, and another request restarts it.
func (t *terminator) awaitDeletion(vm *virtualMachine) bool {
	if vm.provisioningState() != stateDeleting {
		return false
	}
	now, f := t.now(), t.inFlight.get(vm.handle)
	if !f.deleting {
		t.inFlight.put(vm.handle, inFlight{requestedAt: now, deleting: true})
		return true
	}
	return now.Sub(f.requestedAt) < deletionStuckAfter
}

// requestDeletion requests a deletion. When the rate limits do not allow it now, it does nothing:
// callers repeat it until the virtual machine is deleted.
func (t *terminator) requestDeletion(ctx context.Context, vm *virtualMachine) error {
	b := t.backends.of(vm)
	if !b.reserveDelete(vm.handle) {
		return nil
	}
	if err := b.delete(ctx, vm); err != nil {
		return err
	}
	if state(vm) == provider.Creating && t.inFlight.isLate(vm) {
		t.failures.recordStillCreating(vm)
	}
	t.inFlight.put(vm.handle, inFlight{
		requestedAt: t.now(), deleting: true, vmName: strings.ToLower(armtext.Of(vm.Name)), quotaUses: t.instances.quotaUses(ctx, vm),
	})
	return nil
}

// deleteLeftovers finishes a termination: the virtual machine does not exist any more, and its
// interface and disk are deleted.
func (t *terminator) deleteLeftovers(ctx context.Context, handle string) error {
	if flight := t.inFlight.get(handle); !flight.missing {
		if flight.deleting {
			t.quota.Credit(handle, flight.quotaUses, flight.requestedAt)
		}
		flight.missing = true
		t.inFlight.put(handle, flight)
	}
	since := t.now().Add(-t.vms.maxAgeForDeletion())
	if requested := t.inFlight.get(handle).requestedAt; requested.After(since) {
		since = requested
	}
	left, err := t.leftovers.leftoversOf(ctx, handle, since)
	if err != nil {
		return fmt.Errorf("terminating %s: %w", handle, err)
	}
	if len(left) == 0 {
		t.inFlight.remove(handle)
		return provider.ErrNotFound
	}
	var errs []error
	for _, leftover := range left {
		_, err := t.leftovers.delete(ctx, leftover)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// isDiskOf reports whether a disk has the name that karve gives the OS disk of the virtual
// machine.
func isDiskOf(disk, vm string) bool {
	suffix, ok := strings.CutPrefix(strings.ToLower(disk), vm+"-")
	return ok && karveNameSuffix.MatchString(vm) && diskSuffix.MatchString(suffix)
}

var diskSuffix = regexp.MustCompile(`^[0-9a-f]{6}$`)

// isPartOf reports whether a resource of that name was created for a virtual machine: inline
// interfaces and disks carry its name and a suffix. Those of virtual machines that karve did not
// name have just its name: aks-web-abc-def may belong to another claim.
func isPartOf(resource, vm string) bool {
	resource = strings.ToLower(resource)
	return resource == vm || karveNameSuffix.MatchString(vm) && strings.HasPrefix(resource, vm+"-")
}
