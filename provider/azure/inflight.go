// SPDX-License-Identifier: Apache-2.0

package azure

import (
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
	// asked is when Azure last answered a creation or deletion: a list that started before it
	// says nothing about the virtual machine.
	asked time.Time
	// operation is polled for why the creation failed; nil when unknown.
	operation *createPoller
	// looked is when the virtual machine was last read because it was late.
	looked time.Time
	// leaving is set once deletion was requested.
	leaving bool
	// virtual is the name of the virtual machine behind a leaving AKS machine; empty when there
	// is none.
	virtual string
	// gone is set once a virtual machine that is to be deleted was not found: karve deletes what
	// is left of it (interface, disk), and does not read it again meanwhile.
	gone bool
	// draws is the quota that a leaving virtual machine will free.
	draws []offering.QuotaUse
}

// inFlights holds the in-flight state by the backend's name of the virtual machine.
type inFlights struct {
	mu     sync.Mutex
	byName map[string]inFlight
}

func (f *inFlights) get(name string) inFlight {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.byName[name]
}

func (f *inFlights) put(name string, flight inFlight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.byName[name] = flight
}

func (f *inFlights) drop(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.byName, name)
}
