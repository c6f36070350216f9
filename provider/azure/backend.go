// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"context"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/armerr"
	"github.com/karve-dev/karve/provider/azure/internal/armtext"
)

// A backend creates and deletes virtual machines. The selection of the offering, the remembered
// refusals and the quota ledger are the same for all backends.
type backend interface {
	// handle returns the backend's name for the virtual machine of a claim, in lower case. All
	// in-flight state of a virtual machine is kept under it.
	handle(claim provider.Claim) string
	// mayBegin and mayEnd ask whether Azure's rate limits allow a creation or deletion now.
	// mayBegin returns how long to wait if they do not.
	mayBegin(l *launch) time.Duration
	mayEnd(handle string) bool
	// virtualName returns the future name of the virtual machine; empty when it is not known
	// yet.
	virtualName(handle string) string
	// begin requests the launch's virtual machine, and never changes one that exists. It returns
	// the LaunchState that the claim keeps.
	begin(ctx context.Context, l *launch, m *machineType, choice offering.Ref) (memory map[string]string, err error)
	// final reports whether acceptance by the backend means acceptance by Compute.
	final() bool
	// read reads one virtual machine with its power state; provider.ErrNotFound when it does not
	// exist.
	read(ctx context.Context, handle string) (*machine, error)
	// why returns why a virtual machine failed.
	why(ctx context.Context, l *launch, vm *machine) armerr.Refusal
	// end requests a deletion and does not wait for it. It returns nil when the virtual machine
	// does not exist any more.
	end(ctx context.Context, vm *machine) error
}

// A machine is an existing virtual machine of any backend, in Compute's types. Properties is
// never nil.
type machine struct {
	*armcompute.VirtualMachine
	handle string
	maker  backend
	// said is AKS's description of the machine; nil for one that AKS does not know. bare means
	// that there is no other description, because the virtual machine does not exist or has not
	// been read.
	said *said
	bare bool
}

// byCompute is the backend that creates virtual machines through Compute. All information about
// one is in the virtual machine and in the operation that created it.
type byCompute struct{ p *Provider }

func (c byCompute) handle(claim provider.Claim) string { return machineName(claim.Name, claim.UID) }

func (c byCompute) virtualName(handle string) string { return handle }

func (c byCompute) mayBegin(l *launch) time.Duration {
	return c.p.tickets.create(l.name, l.claim.Urgent)
}

func (c byCompute) mayEnd(handle string) bool { return c.p.tickets.mayDelete(handle) }

func (c byCompute) begin(ctx context.Context, l *launch, m *machineType, choice offering.Ref) (map[string]string, error) {
	request, err := l.request(ctx, m, choice)
	if err != nil {
		return nil, err
	}
	body, err := request.body(ctx)
	if err != nil {
		return nil, err
	}
	if ctx, err = c.p.auxiliary.Allow(ctx); err != nil {
		return nil, prepare(&passingError{err})
	}
	poller, accepted, err := c.put(ctx, l.name, *body)
	if err != nil {
		switch armerr.Classify(err).Kind {
		case armerr.StaleReference:
			c.p.network.Forget()
		case armerr.Denied:
			c.p.auxiliary.Forget()
		}
		return nil, err
	}
	now := c.p.opts.Now()
	c.p.inFlight.put(l.name, inFlight{asked: now, operation: poller})
	return toNote(accepted, choice, now), nil
}

func (byCompute) final() bool { return true }

func (c byCompute) read(ctx context.Context, handle string) (*machine, error) {
	vm, err := c.get(ctx, handle)
	if err != nil {
		if armerr.Classify(err).Kind == armerr.NotFound {
			return nil, provider.ErrNotFound
		}
		return nil, armerr.Wrap(err, "reading AKS machine %s", handle)
	}
	if vm.Properties == nil {
		vm.Properties = &armcompute.VirtualMachineProperties{}
	}
	return &machine{VirtualMachine: vm, handle: handle, maker: c}, nil
}

// why reads the failure from the creation's operation, as this process or the claim remembers
// it, and otherwise from the status of the virtual machine.
func (c byCompute) why(ctx context.Context, l *launch, vm *machine) armerr.Refusal {
	if op := c.p.inFlight.get(vm.handle).operation; op != nil {
		if _, err := op.Poll(ctx); err == nil && op.Done() {
			if _, err := op.Result(ctx); err != nil {
				return armerr.Classify(err)
			}
		}
	}
	if r, ok := l.noted(ctx, c.p.choiceOf(vm)); ok {
		return r
	}
	return vm.explained()
}

// explained returns why a virtual machine failed, from its own status.
func (m *machine) explained() armerr.Refusal {
	if m.said != nil && m.said.failure.Kind != "" {
		return m.said.failure
	}
	for _, s := range statuses(m) {
		if code, ok := strings.CutPrefix(armtext.Of(s.Code), "ProvisioningState/failed/"); ok {
			return armerr.FromCode(code, armtext.Of(s.Message))
		}
	}
	return unexplained()
}

func unexplained() armerr.Refusal {
	return armerr.Refusal{Kind: armerr.OtherRefusal, Code: "ProvisioningFailed", Detail: "Azure does not say why"}
}

// end skips the guest's shutdown: the node's pods have been drained.
func (c byCompute) end(ctx context.Context, vm *machine) error {
	_, err := c.p.clients.vms.BeginDelete(ctx, c.p.opts.NodeResourceGroup, armtext.Of(vm.Name),
		&armcompute.VirtualMachinesClientBeginDeleteOptions{ForceDeletion: to.Ptr(true)})
	if err != nil && armerr.Classify(err).Kind != armerr.NotFound {
		return armerr.Wrap(err, "deleting AKS machine %s", armtext.Of(vm.Name))
	}
	return nil
}

// backendOf returns the backend that created a virtual machine, by its name, and the backend's
// handle.
func (p *Provider) backendOf(name string) (backend, string) {
	if p.aks != nil {
		if handle, theirs := p.aks.handleIn(name); theirs {
			return p.aks, handle
		}
	}
	return byCompute{p}, strings.ToLower(name)
}

// nameToBe returns a stand-in for the name of a virtual machine that does not exist yet.
func (p *Provider) nameToBe(vm *machine) string {
	if p.aks != nil && vm.maker == backend(p.aks) {
		return p.aks.nameToBe(vm.handle)
	}
	return vm.handle
}
