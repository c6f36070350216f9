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
)

// Terminate deletes a node's virtual machine, one step per call: it deletes the virtual machine
// and, once that does not exist any more, an interface or disk that is left. ErrNotFound means
// that nothing is left.
func (p *Provider) Terminate(ctx context.Context, id string) error {
	name, err := p.ids.vmOf(id)
	if err != nil {
		return err
	}
	k, name := p.backendOf(name)
	v, err := p.machines.Since(ctx, p.opts.Now().Add(-p.calm()))
	if err != nil {
		return fmt.Errorf("terminating %s: %w", name, err)
	}
	flight := p.inFlight.get(name)
	if !flight.asked.IsZero() && !v.Started.After(flight.asked) {
		if flight.leaving {
			return nil
		}
		if v, err = p.machines.Since(ctx, flight.asked.Add(1)); err != nil {
			return fmt.Errorf("terminating %s: %w", name, err)
		}
	}
	if vm := v.ByName[name]; vm != nil {
		return p.endListed(ctx, vm)
	}
	return p.endUnseen(ctx, k, name)
}

// endListed deletes a virtual machine that the shared list shows. The list may be out of date
// and has no power state, so the virtual machine itself is read first.
func (p *Provider) endListed(ctx context.Context, vm *machine) error {
	if err := p.endable(vm); err != nil || p.leaves(vm) {
		return err
	}
	if !vm.maker.mayEnd(vm.handle) || !p.tickets.mayRead(cmp.Or(strings.ToLower(armtext.Of(vm.Name)), vm.handle)) {
		return nil
	}
	vm, err := vm.maker.read(ctx, vm.handle)
	if errors.Is(err, provider.ErrNotFound) {
		return nil // the next call deletes its interface and disk
	}
	if err != nil {
		return err
	}
	return p.end(ctx, vm)
}

// endUnseen deletes a virtual machine that the shared list does not show. The list may be older
// than the virtual machine, or incomplete, so the virtual machine itself is read: the caller
// forgets it once this returns ErrNotFound.
func (p *Provider) endUnseen(ctx context.Context, k backend, name string) error {
	p.tickets.dropCreate(name)
	f := p.inFlight.get(name)
	if f.gone {
		return p.clear(ctx, name)
	}
	if !p.tickets.mayRead(cmp.Or(f.virtual, name)) { // read reads the virtual machine if there is one
		return nil
	}
	vm, err := k.read(ctx, name)
	if errors.Is(err, provider.ErrNotFound) {
		return p.clear(ctx, name)
	}
	if err != nil {
		return err
	}
	return p.end(ctx, vm)
}

// TerminateUnclaimed deletes all resources of a claim. It reads the virtual machine itself and
// not the shared list: the creation may have been a moment ago.
func (p *Provider) TerminateUnclaimed(ctx context.Context, claim provider.Claim) error {
	release, err := p.claims.Lock(ctx, claim.UID)
	if err != nil {
		return err
	}
	defer release()
	for _, k := range p.backends {
		if err := p.endUnseen(ctx, k, k.handle(claim)); !errors.Is(err, provider.ErrNotFound) {
			return err
		}
	}
	return p.abandonLegacy(ctx, claim)
}

// end deletes a virtual machine that belongs to karve and is not being deleted yet. The caller
// has just read it.
func (p *Provider) end(ctx context.Context, vm *machine) error {
	if err := p.endable(vm); err != nil || p.leaves(vm) {
		return err
	}
	if err := p.remove(ctx, vm); err != nil || !p.inFlight.get(vm.handle).leaving {
		return err
	}
	p.learnFailed(vm)
	return nil
}

// stuckAfter is how long a deletion may take before it is requested again: far longer than
// deletions take, and rarely enough to do no harm.
const stuckAfter = 10 * time.Minute

// leaves reports whether a virtual machine is being deleted and needs no further request. A
// stuck deletion does: Azure may have lost it, and another request restarts it. A deletion that
// this process did not request counts from when it was first seen.
func (p *Provider) leaves(vm *machine) bool {
	if armtext.Of(vm.Properties.ProvisioningState) != stateDeleting {
		return false
	}
	now, f := p.opts.Now(), p.inFlight.get(vm.handle)
	if !f.leaving {
		p.inFlight.put(vm.handle, inFlight{asked: now, leaving: true})
		return true
	}
	return now.Sub(f.asked) < stuckAfter
}

// endable returns an error for virtual machines that karve must not delete.
func (p *Provider) endable(vm *machine) error {
	if !p.owner.ours(vm) {
		return fmt.Errorf("terminating %s: the VM does not carry the tags of cluster %s, so karve does not delete it", vm.handle, p.opts.ClusterName)
	}
	if _, plain := vm.maker.(byCompute); plain && madeByAKS(vm) {
		return fmt.Errorf("terminating %s: it belongs to an AKS pool of mode Machines that karve does not know: name the pool with --aks-machines-pool-name, or delete the machine with az aks nodepool delete-machines", vm.handle)
	}
	return nil
}

// remove requests a deletion. When the rate limits do not allow it now, remove does nothing:
// callers repeat it until the virtual machine is deleted.
func (p *Provider) remove(ctx context.Context, vm *machine) error {
	if !vm.maker.mayEnd(vm.handle) {
		return nil
	}
	if err := vm.maker.end(ctx, vm); err != nil {
		return err
	}
	p.learnStuck(vm)
	p.inFlight.put(vm.handle, inFlight{asked: p.opts.Now(), leaving: true, virtual: strings.ToLower(armtext.Of(vm.Name)), draws: p.drawsOf(ctx, vm)})
	return nil
}

// clear finishes a termination: the virtual machine does not exist any more, and clear deletes
// its interface and disk.
func (p *Provider) clear(ctx context.Context, name string) error {
	if flight := p.inFlight.get(name); !flight.gone {
		if flight.leaving {
			p.quota.Credit(name, flight.draws, p.opts.Now())
		}
		flight.gone = true
		p.inFlight.put(name, flight)
	}
	since := p.opts.Now().Add(-p.calm())
	if asked := p.inFlight.get(name).asked; asked.After(since) {
		since = asked
	}
	left, err := p.orphans.leftovers(ctx, name, since)
	if err != nil {
		return fmt.Errorf("terminating %s: %w", name, err)
	}
	if len(left) == 0 {
		p.inFlight.drop(name)
		return provider.ErrNotFound
	}
	var errs []error
	for _, o := range left {
		errs = append(errs, p.Reclaim(ctx, o))
	}
	return errors.Join(errs...)
}

// isDiskOf reports whether a disk has the name that karve gives the OS disk of the virtual
// machine.
func isDiskOf(disk, machine string) bool {
	suffix, ok := strings.CutPrefix(strings.ToLower(disk), machine+"-")
	return ok && ourName.MatchString(machine) && diskSuffix.MatchString(suffix)
}

var diskSuffix = regexp.MustCompile(`^[0-9a-f]{6}$`)

// belongs reports whether a resource of that name was created for a virtual machine: inline
// interfaces and disks carry its name and a suffix. Those of virtual machines that karve did not
// name have just its name: aks-web-abc-def may belong to another claim.
func belongs(resource, machine string) bool {
	resource = strings.ToLower(resource)
	return resource == machine || ourName.MatchString(machine) && strings.HasPrefix(resource, machine+"-")
}
