// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/armerr"
	"github.com/karve-dev/karve/provider/azure/internal/armtext"
	"github.com/karve-dev/karve/provider/azure/internal/stock"
)

// A launchProgress reports how far an existing virtual machine has come, and deletes one that
// failed.
type launchProgress struct {
	conn       *connection
	instances  *instanceReader
	inFlight   *inFlights
	probes     *stock.Probes
	failures   *failures
	terminator *terminator
	limiter    rateLimiter
	region     regionName
	now        func() time.Time
	log        *slog.Logger
}

// advance advances a launch whose virtual machine exists: it reports the state, and deletes the
// virtual machine if it failed.
func (p *launchProgress) advance(ctx context.Context, l *launch, vm *virtualMachine) (provider.Instance, error) {
	switch vm.provisioningState() {
	case stateFailed, stateCanceled:
		return p.handleFailure(ctx, l)
	case stateDeleting:
		return l.pending(), nil
	}
	in := p.describe(ctx, l, vm)
	if in.State == provider.Creating && p.inFlight.isLate(vm) {
		return p.readLate(ctx, l, in)
	}
	return in, nil
}

// describe describes a virtual machine that has not failed.
func (p *launchProgress) describe(ctx context.Context, l *launch, vm *virtualMachine) provider.Instance {
	in := p.instances.instance(ctx, vm)
	in.LaunchState = recordedOperation(l.claim)
	if in.ClaimUID == "" { // inherited
		in.ClaimUID = l.claim.UID
		p.instances.describe(ctx, &in, l.claim.Class)
	}
	if armtext.Of(vm.Name) == "" {
		in.ProviderID = "" // its node gets another provider ID, which is not known yet
	}
	if in.State == provider.Running {
		p.recordRunning(l, vm)
		return in
	}
	in.RetryAfter = l.vms.maxAgeForLaunch()
	return in
}

// recordRunning records that the virtual machine came up. For a backend whose acceptance is not
// yet Compute's (see acceptanceIsFinal), this is the first sign that Compute accepted it.
func (p *launchProgress) recordRunning(l *launch, vm *virtualMachine) {
	p.probes.Proven(l.handle)
	p.inFlight.recordRunning(l.handle)
	if !l.backend.acceptanceIsFinal() {
		p.failures.recordAccepted(l.class.Name, imageOf(vm))
	}
}

// handleFailure finds out why a virtual machine never came up, records it, and deletes the virtual
// machine so that the next call can try the next offering. A virtual machine that runs has not
// failed, whatever the result of an operation on it.
func (p *launchProgress) handleFailure(ctx context.Context, l *launch) (provider.Instance, error) {
	if !l.backend.reserveDelete(l.handle) {
		return l.pending(), nil // reported once the rate limits allow the deletion
	}
	vm, err := l.backend.read(ctx, l.handle)
	if errors.Is(err, provider.ErrNotFound) {
		return l.pending(), nil
	}
	if err != nil {
		return provider.Instance{}, err
	}
	if state(vm) != provider.Failed {
		return p.describe(ctx, l, vm), nil
	}
	return p.deleteFailed(ctx, l, vm, l.backend.failureReason(ctx, l.claim, vm))
}

// deleteFailed records why a virtual machine failed and deletes it.
func (p *launchProgress) deleteFailed(ctx context.Context, l *launch, vm *virtualMachine, r armerr.Failure) (provider.Instance, error) {
	ref := p.region.refOf(vm)
	p.recordFailure(l, vm, r)
	p.probes.Refused(l.handle)
	l.addRefused(ref, r.Code, r.Reason(), r.Detail)
	p.log.Info("VM failed", slog.String("claim", l.claim.Name), slog.String("vm", l.handle),
		slog.String("instanceType", ref.Type), slog.String("zone", ref.Zone), slog.String("code", r.Code))
	if err := p.terminator.requestDeletion(ctx, vm); err != nil {
		return provider.Instance{}, err
	}
	in := l.pending()
	in.LaunchState = withoutOperation()
	return in, nil
}

// recordFailure records the reason of a failed virtual machine like a refusal: Compute may refuse
// later what AKS has accepted.
func (p *launchProgress) recordFailure(l *launch, vm *virtualMachine, r armerr.Failure) {
	ref := p.region.refOf(vm)
	if p.failures.record(l.requester(), r, imageOf(vm), ref) {
		return
	}
	ofOffering := asOfferingFailure(r)
	if s := l.region.skus.Value.ByName[ref.Type]; s != nil {
		p.failures.blockOffering(l.requester(), ofOffering, s, ref)
	}
	if r.Kind == armerr.OtherFailure || r.Kind == armerr.Denied {
		p.failures.pauseClass(l.class.Name, ofOffering)
	}
}

// asOfferingFailure returns the reason of a failed virtual machine as a failure of its offering,
// whatever the error code: requesting the same again at once would not help.
func asOfferingFailure(r armerr.Failure) armerr.Failure {
	if !r.AboutOffering() {
		r.Kind = armerr.OtherFailure
	}
	return r
}

// lateReadEvery is the interval at which a late virtual machine is read.
const lateReadEvery = 30 * time.Second

// readLate reads a virtual machine that is late: its operation may have ended, which the list
// does not show. While the outcome is unknown, readLate keeps the virtual machine.
func (p *launchProgress) readLate(ctx context.Context, l *launch, in provider.Instance) (provider.Instance, error) {
	f, now := p.inFlight.get(l.handle), p.now()
	if now.Sub(f.lastRead) < lateReadEvery || !p.limiter.reserveLateRead(l.handle) {
		return in, nil
	}
	f.lastRead = now
	p.inFlight.put(l.handle, f)
	vm, err := l.backend.read(ctx, l.handle)
	switch {
	case errors.Is(err, provider.ErrNotFound):
		return l.pending(), nil
	case err != nil:
		p.log.Warn("cannot read a VM that is late", slog.String("vm", l.handle), slog.Any("err", err))
		return in, nil
	case power(vm) == "running":
		in.State, in.RetryAfter = provider.Running, 0
		p.recordRunning(l, vm)
		return in, nil
	case vm.provisioningState() != stateCreating:
		return p.advance(ctx, l, vm)
	}
	if r, failed := p.conn.recordedFailure(ctx, l.claim, p.region.refOf(vm)); failed && l.backend.reserveDelete(l.handle) {
		return p.deleteFailed(ctx, l, vm, r)
	}
	return in, nil
}
