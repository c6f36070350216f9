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
)

// Terminate gives a machine back, one step per call: it deletes the machine, and
// once that is gone looks for an interface or disk that stayed behind.
// ErrNotFound means that nothing is left.
func (p *Provider) Terminate(ctx context.Context, id string) error {
	name, err := p.machineOf(id)
	if err != nil {
		return err
	}
	k, name := p.backendOf(name)
	v, err := p.machines.since(ctx, p.opts.Now().Add(-p.calm()))
	if err != nil {
		return fmt.Errorf("terminating %s: %w", name, err)
	}
	flight := p.inFlight.get(name)
	if !flight.asked.IsZero() && !v.started.After(flight.asked) {
		if flight.leaving {
			return nil
		}
		if v, err = p.machines.since(ctx, flight.asked.Add(1)); err != nil {
			return fmt.Errorf("terminating %s: %w", name, err)
		}
	}
	if vm := v.byName[name]; vm != nil {
		return p.endListed(ctx, vm)
	}
	return p.endUnseen(ctx, k, name)
}

// endListed ends a machine that the shared list shows. A list is a moment old and says
// nothing of power, so what is deleted is looked at itself first.
func (p *Provider) endListed(ctx context.Context, vm *machine) error {
	if err := p.endable(vm); err != nil || p.leaves(vm) {
		return err
	}
	if !vm.maker.mayEnd(vm.handle) || !p.mayLook(cmp.Or(strings.ToLower(text(vm.Name)), vm.handle)) {
		return nil
	}
	vm, err := vm.maker.read(ctx, vm.handle)
	if errors.Is(err, provider.ErrNotFound) {
		return nil // the next call looks for what it left behind
	}
	if err != nil {
		return err
	}
	return p.end(ctx, vm)
}

// endUnseen ends a machine that the shared list does not show. The list may be older
// than the machine, or lack what it should hold, so the machine itself is asked for:
// who believes that it is gone forgets it.
func (p *Provider) endUnseen(ctx context.Context, k backend, name string) error {
	p.forgetBuying(name)
	f := p.inFlight.get(name)
	if f.gone {
		return p.clear(ctx, name)
	}
	if !p.mayLook(cmp.Or(f.virtual, name)) { // the virtual machine is what is read, where there is one
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

// Abandon gives back whatever exists for a claim. It reads the machine itself
// and not the shared list: the creation may have been a moment ago.
func (p *Provider) TerminateUnclaimed(ctx context.Context, claim provider.Claim) error {
	release, err := p.claims.lock(ctx, claim.UID)
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

// end deletes a machine that is ours and not yet on its way out. It must have been read
// by itself just now.
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

// stuckAfter is how long a machine may be on its way out before it is asked for once
// more: far longer than machines take, and rarely enough to do no harm.
const stuckAfter = 10 * time.Minute

// leaves reports whether a machine is on its way out and needs no asking. A deletion that
// is stuck does: Azure may have forgotten it, and another request gets it going. One that
// this process did not ask for counts from when it was seen first.
func (p *Provider) leaves(vm *machine) bool {
	if text(vm.Properties.ProvisioningState) != stateDeleting {
		return false
	}
	now, f := p.opts.Now(), p.inFlight.get(vm.handle)
	if !f.leaving {
		p.inFlight.put(vm.handle, inFlight{asked: now, leaving: true})
		return true
	}
	return now.Sub(f.asked) < stuckAfter
}

// endable refuses machines that are not karve's to end.
func (p *Provider) endable(vm *machine) error {
	if !p.ours(vm) {
		return fmt.Errorf("terminating %s: the machine does not carry the tags of cluster %s, so it is not ours to delete", vm.handle, p.opts.ClusterName)
	}
	if _, plain := vm.maker.(byCompute); plain && madeByAKS(vm) {
		return fmt.Errorf("terminating %s: it belongs to a machine pool of AKS that karve does not know: name the pool with --aks-machines-pool-name, or delete the machine with az aks nodepool delete-machines", vm.handle)
	}
	return nil
}

// remove asks for a machine's end. When it is not the machine's turn by Azure's limits,
// nothing happens: whoever asks asks again until it is gone.
func (p *Provider) remove(ctx context.Context, vm *machine) error {
	if !vm.maker.mayEnd(vm.handle) {
		return nil
	}
	if err := vm.maker.end(ctx, vm); err != nil {
		return err
	}
	p.learnStuck(vm)
	p.inFlight.put(vm.handle, inFlight{asked: p.opts.Now(), leaving: true, virtual: strings.ToLower(text(vm.Name)), draws: p.drawsOf(ctx, vm)})
	return nil
}

// clear finishes a termination: the machine is gone, and so must be what
// belonged to it.
func (p *Provider) clear(ctx context.Context, name string) error {
	if flight := p.inFlight.get(name); !flight.gone {
		if flight.leaving {
			p.credit(name, flight.draws, p.opts.Now())
		}
		flight.gone = true
		p.inFlight.put(name, flight)
	}
	left, err := p.leftovers(ctx, name)
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

// isDiskOf reports whether a name is the one that disk gives the OS disk of a machine.
func isDiskOf(disk, machine string) bool {
	suffix, ok := strings.CutPrefix(strings.ToLower(disk), machine+"-")
	return ok && ourName.MatchString(machine) && diskSuffix.MatchString(suffix)
}

var diskSuffix = regexp.MustCompile(`^[0-9a-f]{6}$`)

// belongs reports whether a resource of that name was made for a machine: inline
// interfaces and disks carry its name and a suffix. Those of machines that were not
// named by us have just its name: aks-web-abc-def may be another claim's.
func belongs(resource, machine string) bool {
	resource = strings.ToLower(resource)
	return resource == machine || ourName.MatchString(machine) && strings.HasPrefix(resource, machine+"-")
}
