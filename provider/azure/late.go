// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/armerr"
	"github.com/karve-dev/karve/provider/azure/internal/armtext"
	"github.com/karve-dev/karve/provider/azure/internal/stock"
)

// bootTimes records how long the last virtual machines took to come up. The zero bootTimes has
// no records.
type bootTimes struct {
	mu   sync.Mutex
	took []time.Duration
	next int // index of the oldest in took
}

const (
	sample      = 200 // virtual machines that are remembered
	telling     = 20  // virtual machines below which patience uses lateAtFirst
	lateFactor  = 3   // times the 95th percentile
	lateAtFirst = 3 * time.Minute
	lateAtLeast = 30 * time.Second
	// lookAgain is the interval at which a late virtual machine is read.
	lookAgain = 30 * time.Second
)

func (p *bootTimes) note(took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.took) < sample {
		p.took = append(p.took, took)
		return
	}
	p.took[p.next] = took
	p.next = (p.next + 1) % sample
}

// patience returns how long a creation may take before the virtual machine is late.
func (p *bootTimes) patience() time.Duration {
	p.mu.Lock()
	took := slices.Clone(p.took)
	p.mu.Unlock()
	if len(took) < telling {
		return lateAtFirst
	}
	slices.Sort(took)
	return max(lateAtLeast, lateFactor*took[len(took)*95/100])
}

// arrived records that a virtual machine came up, and how long it took if this process requested
// it.
func (p *Provider) arrived(name string) {
	p.stockProbes.Proven(name)
	if f := p.inFlight.get(name); !f.asked.IsZero() && !f.leaving {
		p.bootTimes.note(p.opts.Now().Sub(f.asked))
	}
	p.inFlight.drop(name)
}

// late reports whether the creation takes far longer than others did.
func (p *Provider) late(name string, vm *machine) bool {
	begun := p.inFlight.get(name).asked
	if created := vm.Properties.TimeCreated; begun.IsZero() && created != nil {
		begun = *created
	}
	return !begun.IsZero() && p.opts.Now().Sub(begun) > p.bootTimes.patience()
}

// chase reads a virtual machine that is late: its operation may have ended, which the list does
// not show. While the outcome is unknown, chase keeps the virtual machine.
func (l *launch) chase(ctx context.Context, in provider.Instance) (provider.Instance, error) {
	f, now := l.p.inFlight.get(l.name), l.p.opts.Now()
	if now.Sub(f.looked) < lookAgain || !l.p.tickets.mayReadLate(l.name) {
		return in, nil
	}
	f.looked = now
	l.p.inFlight.put(l.name, f)
	vm, err := l.maker.read(ctx, l.name)
	switch {
	case errors.Is(err, provider.ErrNotFound):
		return l.waiting(), nil
	case err != nil:
		l.p.opts.Log.Warn("cannot read a VM that is late", slog.String("machine", l.name), slog.Any("err", err))
		return in, nil
	case power(vm) == "running":
		in.State, in.RetryAfter = provider.Running, 0
		l.arrived(vm)
		return in, nil
	case armtext.Of(vm.Properties.ProvisioningState) != stateCreating:
		return l.follow(ctx, vm)
	}
	if r, failed := l.noted(ctx, l.p.choiceOf(vm)); failed && l.maker.mayEnd(l.name) {
		return l.giveBack(ctx, vm, r)
	}
	return in, nil
}

// stuck is the refusal recorded for a virtual machine that was given up during its creation.
func stuck() armerr.Refusal {
	return armerr.Refusal{Kind: armerr.OtherRefusal, Code: "StillCreating", Detail: "the VM was not created in time"}
}

// learnStuck blocks the offering of a virtual machine for a while if it was late and is deleted
// before it came up, so that the next claim tries another offering.
func (p *Provider) learnStuck(vm *machine) {
	if state(vm) == provider.Creating && p.late(vm.handle, vm) {
		p.learnOf(vm, stuck(), stock.Requester{})
	}
}

// learnFailed blocks the offering of a virtual machine for a while if it is deleted because it
// failed after its creation.
func (p *Provider) learnFailed(vm *machine) {
	if state(vm) == provider.Failed {
		p.learnOf(vm, failure(vm.explained()), stock.Requester{Class: tag(vm.Tags, tagClass)})
	}
}

func (p *Provider) learnOf(vm *machine, r armerr.Refusal, by stock.Requester) {
	choice := p.choiceOf(vm)
	if s := p.catalogs.sizes()[choice.Type]; s != nil {
		p.stockouts.Learn(r, s, choice.Zone, choice.CapacityType, by)
	}
}
