// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"

	"github.com/karve-dev/karve/internal/panics"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/aksmachine"
	"github.com/karve-dev/karve/provider/azure/internal/armerr"
	"github.com/karve-dev/karve/provider/azure/internal/armtext"
	"github.com/karve-dev/karve/provider/azure/internal/stock"
)

// An aksBackend lets AKS create machines, in one agent pool of the cluster. AKS chooses the name
// of the virtual machine and how it becomes a node. The handle is the name of the AKS machine.
type aksBackend struct {
	pool        *aksPool
	vms         *vmList
	compute     *computeBackend // reads virtual machines, and deletes those that AKS does not know
	unavailable *stock.UnavailableOfferings
	inFlight    *inFlights
	subnets     nodeSubnets
	region      regionName
	owner       ownership
	now         func() time.Time

	creations *aksmachine.Batcher[aksMachineSpec]
	deletions *aksmachine.Batcher[string] // by handle
}

// batch makes creations and deletions wait to be sent together.
func (a *aksBackend) batch(b Batching, p *panics.Reporter) {
	a.creations = aksmachine.NewBatcher(aksmachine.Batching(b), p, a.pool.create)
	a.deletions = aksmachine.NewBatcher(aksmachine.Batching(b), p, a.pool.delete)
}

// maxAKSName is one less than AKS's limit of 35 characters, like the names that Karpenter gives.
const maxAKSName = 34

func (a *aksBackend) handle(claim provider.Claim) string {
	hash := hashOf(claim.UID)
	return dnsSafe(claim.Name, maxAKSName-len("-")-len(hash)) + "-" + hash
}

// vmName is empty: AKS reports the name with the machine.
func (a *aksBackend) vmName(string) string { return "" }

// reserveCreate and reserveDelete never hold a call back: one request covers many machines, so each
// request waits for the rate limits in the HTTP pipeline, and fails there when the wait is long.
func (a *aksBackend) reserveCreate(string, bool) time.Duration { return 0 }
func (a *aksBackend) reserveDelete(string) bool                { return true }

func (a *aksBackend) create(ctx context.Context, spec *vmSpec) (map[string]string, error) {
	body, err := a.body(spec)
	if err != nil {
		return nil, beforeRequest(err)
	}
	template, err := json.Marshal(body)
	if err != nil {
		return nil, beforeRequest(fmt.Errorf("writing AKS machine %s: %w", spec.handle, err))
	}
	one := aksMachineSpec{name: spec.handle, tags: armtext.Pointers(a.tags(spec)), body: body}
	if zone := a.region.zoneNumber(spec.offering.Zone); zone != "" {
		one.zones = []*string{to.Ptr(zone)}
	}
	sum := sha256.Sum256(template)
	err = a.creations.Submit(ctx, hex.EncodeToString(sum[:]), one)
	if errors.Is(err, aksmachine.ErrNotSent) {
		return nil, beforeRequest(err)
	}
	if r := armerr.Classify(err); r.Kind == armerr.NotFound {
		r.Advice = a.pool.missing()
		a.unavailable.PauseClass(spec.class.Name, ClassWithoutPool, r, poolMissingTTL)
		return nil, &provider.NotReadyError{Class: spec.class.Name, Reason: ClassWithoutPool, Detail: r.Advice}
	}
	if err != nil {
		return nil, err
	}
	a.inFlight.put(spec.handle, inFlight{requestedAt: a.now()})
	return nil, nil
}

// acceptanceIsFinal is false: AKS asks Compute later.
func (*aksBackend) acceptanceIsFinal() bool { return false }

// tags returns the tags of virtual machines that Compute creates, and the tag that identifies
// AKS machines.
func (a *aksBackend) tags(spec *vmSpec) map[string]string {
	tags := a.owner.vmTags(spec.class, spec.claim)
	setTag(tags, tagAKSMachine, spec.claim.Name)
	return tags
}

// read reads the virtual machine if there is one: Compute allows far more reads than AKS, and
// reports the power state.
func (a *aksBackend) read(ctx context.Context, handle string) (*virtualMachine, error) {
	if deleted, err := a.confirmDeleted(ctx, handle); deleted || err != nil {
		return nil, cmp.Or(err, provider.ErrNotFound)
	}
	if known := a.vms.Last().ByName[handle]; known != nil && !known.aksOnly {
		if vm, err := a.readVM(ctx, known); !errors.Is(err, provider.ErrNotFound) {
			return vm, err
		}
	}
	m, err := a.pool.get(ctx, handle)
	if errors.Is(err, provider.ErrNotFound) {
		return a.readUnknownToAKS(ctx, handle)
	}
	if err != nil || armtext.Of(m.Name) == "" {
		return m, err
	}
	vm, err := a.readVM(ctx, m)
	if errors.Is(err, provider.ErrNotFound) {
		return m, nil
	}
	return vm, err
}

// readVM reads the virtual machine of m from Compute.
func (a *aksBackend) readVM(ctx context.Context, m *virtualMachine) (*virtualMachine, error) {
	vm, err := a.compute.read(ctx, strings.ToLower(armtext.Of(m.Name)))
	if err != nil {
		return nil, err
	}
	vm.handle, vm.inPool = m.handle, true
	return mergeDescriptions(m, vm), nil
}

// readUnknownToAKS looks for the virtual machine of a machine that AKS does not know: the virtual
// machine's name in Compute's list contains the handle.
func (a *aksBackend) readUnknownToAKS(ctx context.Context, handle string) (*virtualMachine, error) {
	v, err := a.vms.NotOlderThan(ctx, a.now().Add(-a.pool.maxListAge()))
	if err != nil {
		return nil, err
	}
	if m := v.ByName[handle]; m != nil && !m.aksOnly {
		return a.readVM(ctx, m)
	}
	return nil, provider.ErrNotFound
}

// confirmDeleted reports whether a machine whose deletion was requested does not exist any more:
// a list started since then lacks it, and so does Compute. Reading each one from AKS would take a
// minute for thirty machines.
func (a *aksBackend) confirmDeleted(ctx context.Context, handle string) (bool, error) {
	f, v := a.inFlight.get(handle), a.vms.Last()
	if !f.deleting || f.vmName == "" || v.ByName[handle] != nil || v.MayContain(handle) || !v.Started.After(f.requestedAt) {
		return false, nil
	}
	_, err := a.compute.read(ctx, f.vmName)
	if errors.Is(err, provider.ErrNotFound) {
		return true, nil
	}
	return false, err
}

// failureReason returns the reason that AKS reports with the machine.
func (a *aksBackend) failureReason(_ context.Context, _ provider.Claim, vm *virtualMachine) armerr.Failure {
	if vm.aksMachine != nil && vm.aksMachine.failure.Kind != "" {
		return vm.aksMachine.failure
	}
	return unexplained()
}

// delete requests that AKS deletes its machine together with the virtual machine. If AKS does not
// know the machine, the virtual machine is deleted through Compute.
func (a *aksBackend) delete(ctx context.Context, vm *virtualMachine) error {
	err := a.deletions.Submit(ctx, "", vm.handle)
	switch {
	case armerr.Classify(err).Kind == armerr.NotFound && vm.aksOnly:
		return nil
	case armerr.Classify(err).Kind == armerr.NotFound:
		return a.compute.delete(ctx, vm)
	case err != nil:
		return armerr.Wrap(err, "deleting AKS machine %s", vm.handle)
	}
	return nil
}
