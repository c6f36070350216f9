package azure

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/karve-dev/karve/provider"
)

// bootTimes learns how long machines take to be made from those that were made last.
// The zero punctuality has seen none.
type bootTimes struct {
	mu   sync.Mutex
	took []time.Duration
	next int // the oldest of took
}

const (
	sample      = 200 // machines that are remembered
	telling     = 20  // machines that say something
	lateFactor  = 3   // of what 95 of 100 machines take at the most
	lateAtFirst = 3 * time.Minute
	lateAtLeast = 30 * time.Second
	// lookAgain is how often a late machine is read by itself.
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

// patience is how long a machine may take before it is late.
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

// arrived notes that a machine came up, and how long it took if this process asked for it.
func (p *Provider) arrived(name string) {
	p.stockProbes.proven(name)
	if f := p.inFlight.get(name); !f.asked.IsZero() && !f.leaving {
		p.bootTimes.note(p.opts.Now().Sub(f.asked))
	}
	p.inFlight.drop(name)
}

// late reports whether a machine takes far longer to be made than others do.
func (p *Provider) late(name string, vm *machine) bool {
	begun := p.inFlight.get(name).asked
	if created := vm.Properties.TimeCreated; begun.IsZero() && created != nil {
		begun = *created
	}
	return !begun.IsZero() && p.opts.Now().Sub(begun) > p.bootTimes.patience()
}

// chase looks closely at a machine that is late: its operation may have come to an end
// that the list does not show. Not being able to tell is no reason to end it.
func (l *launch) chase(ctx context.Context, in provider.Instance) (provider.Instance, error) {
	f, now := l.p.inFlight.get(l.name), l.p.opts.Now()
	if now.Sub(f.looked) < lookAgain || !l.p.mayTryList(l.name) {
		return in, nil
	}
	f.looked = now
	l.p.inFlight.put(l.name, f)
	vm, err := l.maker.read(ctx, l.name)
	switch {
	case errors.Is(err, provider.ErrNotFound):
		return l.waiting(), nil
	case err != nil:
		l.p.opts.Log.Warn("cannot look at a machine that is late", slog.String("machine", l.name), slog.Any("err", err))
		return in, nil
	case power(vm) == "running":
		in.State, in.RetryAfter = provider.Running, 0
		l.arrived(vm)
		return in, nil
	case text(vm.Properties.ProvisioningState) != stateCreating:
		return l.follow(ctx, vm)
	}
	if r, failed := l.noted(ctx, l.p.choiceOf(vm)); failed && l.maker.mayEnd(l.name) {
		return l.giveBack(ctx, vm, r)
	}
	return in, nil
}

// stuck is learnt of a machine that was given up while it was still being made.
func stuck() refusal {
	return refusal{kind: otherRefusal, code: "StillCreating", detail: "the machine took so long to be made that it was given up"}
}

// learnStuck has the offer rest of a machine that is ended before it came to be, if it
// was late: the next claim had better try another.
func (p *Provider) learnStuck(vm *machine) {
	if state(vm) == provider.Creating && p.late(vm.handle, vm) {
		p.learnOf(vm, stuck(), buyer{})
	}
}

// learnFailed has the offer rest of a machine that is ended because it failed when it had
// been made.
func (p *Provider) learnFailed(vm *machine) {
	if state(vm) == provider.Failed {
		p.learnOf(vm, failure(vm.explained()), buyer{class: tag(vm.Tags, tagClass)})
	}
}

func (p *Provider) learnOf(vm *machine, r refusal, by buyer) {
	choice := p.choiceOf(vm)
	if s := p.skus.read().value.byName[choice.Type]; s != nil {
		p.stockouts.learn(r, s, choice.Zone, choice.CapacityType, by)
	}
}
