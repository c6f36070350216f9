package azure

import (
	"context"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider"
)

// A maker has machines made and unmade. What to buy, what was refused and what is left of
// quota is the same for all of them.
type backend interface {
	// handle is the maker's name for the machine of a claim, lower case. All that is
	// remembered of a machine is kept under it.
	handle(claim provider.Claim) string
	// mayBegin and mayEnd ask for the turn of a machine by Azure's limits. mayBegin
	// returns how long to stay away when it has not come.
	mayBegin(l *launch) time.Duration
	mayEnd(handle string) bool
	// virtualName is what the virtual machine will be called; empty when nobody knows yet.
	virtualName(handle string) string
	// begin asks for the launch's machine, and never changes one that exists. It returns
	// what the claim shall remember of it.
	begin(ctx context.Context, l *launch, m *machineType, choice offering.Ref) (memory map[string]string, err error)
	// final reports whether a machine that it accepts is one that Compute has accepted.
	final() bool
	// read reads a machine by itself, with its power; provider.ErrNotFound when there is none.
	read(ctx context.Context, handle string) (*machine, error)
	// why says why a machine failed.
	why(ctx context.Context, l *launch, vm *machine) refusal
	// end asks for a machine's end and does not wait for it. One that is gone is no error.
	end(ctx context.Context, vm *machine) error
}

// A machine is one that exists, whoever made it, in Compute's words. Properties are there.
type machine struct {
	*armcompute.VirtualMachine
	handle string
	maker  backend
	// said is what AKS says of it; nil for one that AKS does not know. bare: AKS's words
	// are all there is, as its virtual machine does not exist or has not been read.
	said *said
	bare bool
}

// byCompute has Compute make virtual machines. All there is to know of one is in it, and in
// the operation that made it.
type byCompute struct{ p *Provider }

func (c byCompute) handle(claim provider.Claim) string { return machineName(claim.Name, claim.UID) }

func (c byCompute) virtualName(handle string) string { return handle }

func (c byCompute) mayBegin(l *launch) time.Duration { return l.mayBuy() }

func (c byCompute) mayEnd(handle string) bool { return c.p.mayDelete(handle) }

func (c byCompute) begin(ctx context.Context, l *launch, m *machineType, choice offering.Ref) (map[string]string, error) {
	body, err := l.body(ctx, m, choice)
	if err != nil {
		return nil, err
	}
	if ctx, err = c.p.auxiliary.allow(ctx); err != nil {
		return nil, prepare(&passingError{err})
	}
	poller, accepted, err := c.put(ctx, l.name, *body)
	if err != nil {
		switch classify(err).kind {
		case staleReference:
			c.p.network.forget()
		case denied:
			c.p.auxiliary.forget()
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
		if classify(err).kind == notFound {
			return nil, provider.ErrNotFound
		}
		return nil, wrap(err, "reading machine %s", handle)
	}
	if vm.Properties == nil {
		vm.Properties = &armcompute.VirtualMachineProperties{}
	}
	return &machine{VirtualMachine: vm, handle: handle, maker: c}, nil
}

// why reads the failure from the operation, as this process or the claim remembers it,
// and from the machine's own status otherwise.
func (c byCompute) why(ctx context.Context, l *launch, vm *machine) refusal {
	if op := c.p.inFlight.get(vm.handle).operation; op != nil {
		if _, err := op.Poll(ctx); err == nil && op.Done() {
			if _, err := op.Result(ctx); err != nil {
				return classify(err)
			}
		}
	}
	if r, ok := l.noted(ctx, c.p.choiceOf(vm)); ok {
		return r
	}
	return vm.explained()
}

// explained is why a machine failed, as it says itself.
func (m *machine) explained() refusal {
	if m.said != nil && m.said.failure.kind != "" {
		return m.said.failure
	}
	for _, s := range statuses(m) {
		if code, ok := strings.CutPrefix(text(s.Code), "ProvisioningState/failed/"); ok {
			return understand(code, text(s.Message))
		}
	}
	return unexplained()
}

func unexplained() refusal {
	return refusal{kind: otherRefusal, code: "ProvisioningFailed", detail: "Azure does not say why"}
}

// end skips the guest's shutdown: its pods have been drained.
func (c byCompute) end(ctx context.Context, vm *machine) error {
	_, err := c.p.clients.vms.BeginDelete(ctx, c.p.opts.NodeResourceGroup, text(vm.Name),
		&armcompute.VirtualMachinesClientBeginDeleteOptions{ForceDeletion: to.Ptr(true)})
	if err != nil && classify(err).kind != notFound {
		return wrap(err, "deleting machine %s", text(vm.Name))
	}
	return nil
}

// whose says who made a virtual machine by its name, and by which handle.
func (p *Provider) backendOf(name string) (backend, string) {
	if p.aks != nil {
		if handle, theirs := p.aks.handleIn(name); theirs {
			return p.aks, handle
		}
	}
	return byCompute{p}, strings.ToLower(name)
}

// nameToBe stands for the name of a virtual machine that there is not yet.
func (p *Provider) nameToBe(vm *machine) string {
	if p.aks != nil && vm.maker == backend(p.aks) {
		return p.aks.nameToBe(vm.handle)
	}
	return vm.handle
}
