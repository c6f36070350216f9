// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/test/scarcity"
)

// Options are those of one run.
type Options struct {
	// Seed decides where faults are injected and how long things take.
	Seed uint64
	// VMs is how many are needed. Zero: 1,000.
	VMs int
	// Faults are names of the emulator's catalogue. They are injected together.
	Faults []string
	// AKS has AKS make the vms, many with one request, instead of Compute.
	AKS bool
}

// Result is what was found.
type Result struct {
	Options
	// Leaked are VMs, interfaces and disks that were left behind.
	Leaked []string
	// Duplicates are claims that had two VMs at a time.
	Duplicates []string
	// OthersChanged are resources of others that were written to, or that changed.
	OthersChanged []string
	// Unfinished are VMs that never came, and claims that never ended.
	Unfinished []string
	// Struck is how often each fault has struck, by its name.
	Struck map[string]int
	// Claims is how many were needed.
	Claims int
	// Up is how long it took until all VMs had joined, Down until all was gone.
	Up, Down time.Duration
	// Ledger counts the requests.
	Ledger azureemulator.Ledger
}

// Err says what is wrong; nil when nothing is.
func (r Result) Err() error {
	var errs []error
	for what, found := range map[string][]string{"left behind": r.Leaked, "twice": r.Duplicates, "not ours and touched": r.OthersChanged, "without end": r.Unfinished} {
		if len(found) > 0 {
			errs = append(errs, fmt.Errorf("%s, seed %d: %d %s, such as %s", r.name(), r.Seed, len(found), what, found[0]))
		}
	}
	return errors.Join(errs...)
}

func (r Result) name() string {
	if len(r.Faults) == 0 {
		return "no fault"
	}
	return strings.Join(r.Faults, " and ")
}

func (r Result) String() string {
	return fmt.Sprintf("%s, struck %v: %d VMs by %d claims, up in %v, gone in %v, with %d writes and %d reads, %d of them throttled; %d left behind, %d twice, %d of others touched, %d without end",
		r.name(), r.Struck, r.VMs, r.Claims, r.Up.Round(time.Second), r.Down.Round(time.Second), r.Ledger.Writes, r.Ledger.Reads, r.Ledger.Throttled,
		len(r.Leaked), len(r.Duplicates), len(r.OthersChanged), len(r.Unfinished))
}

// How long things may take at most, and how long faults last.
const (
	upWithin   = 2 * time.Hour
	downWithin = 2 * time.Hour
	// faultsLast is how long faults are injected from the start of the provider on, and from when the
	// first VM is terminated; faultsLastWhenUp how long they do before, when all are up.
	faultsLast, faultsLastWhenUp = 2 * time.Minute, 2 * time.Minute
)

// Run brings VMs up and gives them back. Faults are injected while they come up, while all
// are up, and while they go.
func Run(ctx context.Context, o Options) (Result, error) {
	if o.VMs == 0 {
		o.VMs = 1000
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t, err := newRun(ctx, o)
	if err != nil {
		return Result{}, fmt.Errorf("opening the region of seed %d: %w", o.Seed, err)
	}
	defer t.close(cancel)
	a, err := newInjector(t, o)
	if err != nil {
		return Result{}, err
	}
	return t.execute(ctx, a)
}

// execute starts everything, ends it and checks what is left.
func (t *run) execute(ctx context.Context, a *injector) (Result, error) {
	r := Result{Options: t.options}
	if len(a.kinds) == 0 { // of how fast VMs come, what the region offers is no part
		t.catalog.refresh(ctx)
		if problem := t.catalog.problem(); problem != "" {
			return r, fmt.Errorf("nothing is at fault, and the catalog is not whole: %s", problem)
		}
	}
	begun := time.Now()
	a.injectFor(ctx, faultsLast, func() { t.start(ctx) })
	r.Unfinished = t.await(ctx, upWithin, func() []string { return t.claims.missing(t.options.VMs) })
	r.Up = t.claims.lastJoined().Sub(begun)
	if len(a.kinds) > 0 && !t.options.AKS { // what belongs to AKS's VMs is AKS's to take away
		if err := t.others.addInterfaces(ctx, t.claims.snapshot()); err != nil {
			return r, err
		}
	}
	a.injectFor(ctx, faultsLastWhenUp, nothing)
	begun = time.Now()
	a.injectFor(ctx, faultsLast, func() { close(t.noneNeeded) })
	r.Unfinished = append(r.Unfinished, t.await(ctx, downWithin, t.claims.existing)...)
	r.Leaked = t.await(ctx, downWithin, t.others.left)
	r.Down, r.Struck = time.Since(begun), t.region.Struck()
	r.Duplicates, r.OthersChanged, r.Claims = t.claims.withTwoVMs(), append(t.transport.changedByUs(), t.others.changed()...), t.claims.count()
	r.Ledger = t.region.Ledger()
	return r, errors.Join(ctx.Err(), t.region.CheckInvariants())
}

func nothing() {}

// start runs the provider, the collector and a controller for each node that is needed.
func (t *run) start(ctx context.Context) {
	t.goroutines.Go(func() { _ = t.catalog.provider.Run(ctx) }) // its error is that of ctx
	t.goroutines.Go(func() { t.catalog.refreshUntil(ctx) })
	t.goroutines.Go(func() { t.collector.run(ctx) })
	for i := range t.options.VMs {
		t.goroutines.Go(func() { t.controllers.serve(ctx, i) })
	}
}

// await waits until nothing is open any more, and returns what is in the end.
func (t *run) await(ctx context.Context, limit time.Duration, open func() []string) []string {
	for begun := time.Now(); ; {
		t.observe()
		left := open()
		if len(left) == 0 || time.Since(begun) > limit || scarcity.Sleep(ctx, 5*time.Second) != nil {
			return left
		}
	}
}

// close ends all goroutines and waits for them.
func (t *run) close(cancel context.CancelFunc) {
	cancel()
	t.goroutines.Wait()
	_ = t.region.Close() // it has no listener, and its guests end with it
}

// run is one run: the region, what uses it and what is recorded of it.
type run struct {
	options     Options
	region      *azureemulator.Server
	transport   *transport
	catalog     *catalog
	claims      *claims
	others      *others
	controllers *controllers
	collector   *collector
	goroutines  sync.WaitGroup
	noneNeeded  chan struct{} // closed when no node is needed any more
}

// observe looks for claims with two VMs.
func (t *run) observe() {
	vms := map[string]int{}
	for vm, uid := range t.region.VMs.Tagged(tagClaimUID) {
		if uid != "" && !t.others.owns(vm) {
			vms[uid]++
		}
	}
	t.claims.recordVMs(vms)
}
