package azure

import (
	"context"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/karve-dev/karve/engine/offering"
)

type createPoller = runtime.Poller[armcompute.VirtualMachinesClientCreateOrUpdateResponse]

// A flight is what this process remembers of a machine it asked for. Losing it
// costs a little time and nothing else.
type inFlight struct {
	// asked is when the cloud last answered a creation or deletion: no older list
	// says anything about the machine.
	asked time.Time
	// operation tells why the creation failed; nil when unknown.
	operation *createPoller
	// looked is when the machine was last read for being late.
	looked time.Time
	// leaving is set once the machine was asked to be deleted.
	leaving bool
	// virtual is the virtual machine behind a leaving one; empty when there is none.
	virtual string
	// gone is set once a machine that is to end was asked for and is not there: what
	// belonged to it is looked for, and it is not asked for again meanwhile.
	gone bool
	// draws is the quota a leaving machine will give back.
	draws []offering.QuotaUse
}

// inFlights are kept by machine name.
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

// locks are mutexes by name, so that two calls about one machine do not run at
// the same time. The zero locks is not usable: held must be made.
type locks struct {
	mu   sync.Mutex
	held map[string]*lock
}

type lock struct {
	gate  gate
	users int
}

// lock waits for the name and returns its release.
func (l *locks) lock(ctx context.Context, name string) (release func(), err error) {
	l.mu.Lock()
	k := l.held[name]
	if k == nil {
		k = &lock{gate: newGate()}
		l.held[name] = k
	}
	k.users++
	l.mu.Unlock()

	forget := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if k.users--; k.users == 0 {
			delete(l.held, name)
		}
	}
	if err := k.gate.lock(ctx); err != nil {
		forget()
		return nil, err
	}
	return func() { k.gate.unlock(); forget() }, nil
}
