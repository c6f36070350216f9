// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/armerr"
)

// A backend creates and deletes virtual machines. The selection of the offering, the remembered
// refusals and the quota ledger are the same for all backends.
type backend interface {
	// handle returns the backend's name for the virtual machine of a claim, in lower case. All
	// in-flight state of a virtual machine is kept under it.
	handle(claim provider.Claim) string
	// vmName returns the future name of the virtual machine; empty when it is not known yet.
	vmName(handle string) string
	// reserveCreate reserves a creation within Azure's rate limits, or returns how long it has to
	// wait.
	reserveCreate(handle string, urgent bool) time.Duration
	// reserveDelete reserves a deletion within Azure's rate limits; false: not now, call again.
	reserveDelete(handle string) bool
	// create requests a virtual machine, and never changes one that exists. It returns the
	// LaunchState that the claim keeps.
	create(context.Context, *vmSpec) (launchState map[string]string, err error)
	// acceptanceIsFinal reports whether acceptance by the backend means acceptance by Compute.
	acceptanceIsFinal() bool
	// read reads one virtual machine with its power state; provider.ErrNotFound when it does not
	// exist.
	read(ctx context.Context, handle string) (*virtualMachine, error)
	// failureReason returns why the virtual machine of a claim failed.
	failureReason(context.Context, provider.Claim, *virtualMachine) armerr.Failure
	// delete requests a deletion and does not wait for it. It returns nil when the virtual
	// machine does not exist any more.
	delete(context.Context, *virtualMachine) error
}

// A vmSpec says which virtual machine to create for a claim.
type vmSpec struct {
	handle       string // its backend's name for it
	claim        provider.Claim
	class        *v1beta1.AKSNodeClass
	instanceType *instanceType
	offering     offering.Ref
	image        string // resource ID
}

// errBeforeRequest marks errors before a virtual machine was requested.
var errBeforeRequest = errors.New("preparing the VM")

// beforeRequest marks an error that happened before a virtual machine was requested.
func beforeRequest(err error) error { return fmt.Errorf("%w: %w", errBeforeRequest, err) }

// backends are the ways in which virtual machines of this cluster were created. A backend that
// may have created nodes in the past is kept, because it also deletes them.
type backends struct {
	compute *computeBackend
	aks     *aksBackend // nil without an AKS pool
	pool    *aksPool    // of aks
	all     []backend   // the first creates new nodes
}

// of returns the backend that created a virtual machine.
func (b *backends) of(vm *virtualMachine) backend {
	if vm.inPool {
		return b.aks
	}
	return b.compute
}

// byVMName returns the backend that created a virtual machine, by its name, and the backend's
// handle.
func (b *backends) byVMName(name string) (backend, string) {
	handle, inPool := b.pool.handleOf(name)
	if inPool {
		return b.aks, handle
	}
	return b.compute, handle
}
