// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"maps"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/karve-dev/karve/engine/offering"
)

type createPoller = runtime.Poller[armcompute.VirtualMachinesClientCreateOrUpdateResponse]

// An inFlight is what this process remembers of a virtual machine that it requested. Losing it
// costs a little time and nothing else.
type inFlight struct {
	// requestedAt is when a creation or deletion was last requested, or a deletion that another
	// process requested was first seen. A list that started before it says nothing about the
	// virtual machine.
	requestedAt time.Time
	// operation is polled for why the creation failed; nil when unknown.
	operation *createPoller
	// lastRead is when the virtual machine was last read because it was late.
	lastRead time.Time
	// deleting is set once deletion was requested.
	deleting bool
	// vmName is the name of the virtual machine of an AKS machine that is being deleted; empty
	// when there is none.
	vmName string
	// missing is set once a virtual machine that is to be deleted was not found: karve deletes
	// its interface and disk, and does not read it again meanwhile.
	missing bool
	// quotaUses is the quota that a virtual machine frees that is being deleted.
	quotaUses []offering.QuotaUse
}

// inFlights holds the in-flight state by handle, and how long virtual machines took to come up.
type inFlights struct {
	now       func() time.Time
	creations creationTimes

	mu       sync.Mutex
	byHandle map[string]inFlight
}

func newInFlights(now func() time.Time) *inFlights {
	return &inFlights{now: now, byHandle: map[string]inFlight{}}
}

func (f *inFlights) get(handle string) inFlight {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.byHandle[handle]
}

func (f *inFlights) put(handle string, flight inFlight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.byHandle[handle] = flight
}

func (f *inFlights) remove(handle string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.byHandle, handle)
}

// recordRunning records that a virtual machine came up, and how long it took if this process
// requested it.
func (f *inFlights) recordRunning(handle string) {
	if flight := f.get(handle); !flight.requestedAt.IsZero() && !flight.deleting {
		f.creations.record(f.now().Sub(flight.requestedAt))
	}
	f.remove(handle)
}

// isLate reports whether the creation takes far longer than others did.
func (f *inFlights) isLate(vm *virtualMachine) bool {
	begun := f.get(vm.handle).requestedAt
	if created := vm.Properties.TimeCreated; begun.IsZero() && created != nil {
		begun = *created
	}
	return !begun.IsZero() && f.now().Sub(begun) > f.creations.lateAfter()
}

// maxInFlightAge is how long in-flight state is kept after the last request: far longer than a
// creation or deletion takes.
const maxInFlightAge = 2 * time.Hour

func (f *inFlights) removeOld(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.byHandle, func(_ string, x inFlight) bool { return now.Sub(x.requestedAt) > maxInFlightAge })
}
