// SPDX-License-Identifier: Apache-2.0

// Package providertest tests the laws that every provider keeps. A provider's own test calls Run
// with a Harness over its cloud.
//
// It knows providers only through package provider, and their cloud only through the Harness. It
// waits for nothing but the cloud: time must pass by itself or through Harness.Pause.
package providertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider"
)

// Harness is one cloud without instances of this installation. Run asks for a fresh one per law.
type Harness struct {
	// Class names a node class that is ready.
	Class string
	// Open makes a provider that has never seen the cloud, as after a restart.
	Open func(t *testing.T) provider.Provider
	// StockOut makes an offering unavailable: refused at once or, when late, accepted and then
	// failed.
	StockOut func(t *testing.T, c offering.Ref, late bool)
	// Residue lists what exists in the cloud on our account: instances, interfaces, disks,
	// addresses.
	Residue func(t *testing.T) []string
	// Pause lets the cloud proceed between two calls; nil when it needs no help.
	Pause func(time.Duration)
}

// steps is how often a law repeats a call before it fails. Calls take real time against a real
// cloud, so this is minutes there and milliseconds in memory.
const steps = 20_000

// Run checks every law against a cloud of its own.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	for _, law := range []struct {
		name  string
		check func(*run)
	}{
		{"the catalog is plausible", (*run).catalogIsSane},
		{"an unchanged catalog is the same pointer", (*run).catalogIsStable},
		{"a launch ends in a running instance", (*run).launchRuns},
		{"a claim launched again and again has one instance", (*run).launchRepeats},
		{"a claim launched concurrently has one instance", (*run).launchConcurrently},
		{"a claim launched across restarts has one instance", (*run).launchAcrossRestarts},
		{"the launch state of a claim may be lost or changed", (*run).launchRemembers},
		{"claims of one name and two UIDs have two instances", (*run).launchNamesakes},
		{"a launch tries the next offering after a stock-out", (*run).launchFailsOver},
		{"a launch tries the next offering after an instance that never starts", (*run).launchFailsOverLate},
		{"a launch without an available offering leaves nothing behind", (*run).capacityErrorLeavesNothing},
		{"a launch whose instances all fail late leaves nothing behind", (*run).lateCapacityErrorLeavesNothing},
		{"a cancelled launch can be repeated", (*run).launchCancelled},
		{"get and list agree", (*run).listAndGet},
		{"a terminated instance is deleted with its resources", (*run).terminateLeavesNothing},
		{"an instance that does not exist is not found", (*run).notFound},
		{"another cloud's provider ID is foreign", (*run).foreign},
		{"a claim without a provider ID can be terminated", (*run).terminateByClaim},
		{"launches use quota and terminations free it", (*run).quotas},
		{"many claims at once have one instance each", (*run).launchMany},
	} {
		t.Run(strings.ReplaceAll(law.name, " ", "-"), func(t *testing.T) {
			h := open(t)
			r := &run{T: t, Harness: h, p: h.Open(t)}
			law.check(r)
		})
	}
}

// run is one law being checked.
type run struct {
	*testing.T
	Harness
	p provider.Provider
}

func (r *run) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *run) catalog() *provider.Catalog {
	r.Helper()
	s, err := r.p.Catalog(r.Context(), r.Class)
	r.must(err)
	return s
}

// choices returns all offerings that can be launched now, cheapest first.
func (r *run) choices() []offering.Ref {
	r.Helper()
	var all []offering.Ref
	for _, t := range r.catalog().Types {
		for _, o := range t.Offerings {
			if o.Unavailable == "" {
				all = append(all, offering.Ref{Type: t.Name, Zone: o.Zone, CapacityType: o.CapacityType, Price: o.Price, Extras: o.Extras})
			}
		}
	}
	slices.SortFunc(all, byPrice)
	if len(all) < 3 {
		r.Fatalf("the catalog has %d offerings; the laws need three", len(all))
	}
	return all
}

func byPrice(a, b offering.Ref) int {
	if a.Price != b.Price {
		return int(a.Price - b.Price)
	}
	return strings.Compare(a.Type+"/"+a.Zone+"/"+a.CapacityType, b.Type+"/"+b.Zone+"/"+b.CapacityType)
}

func (r *run) claim(name string, choices ...offering.Ref) provider.Claim {
	return provider.Claim{
		Name: name, UID: "uid-of-" + name, Pool: "pool", Class: r.Class, Offerings: choices,
		Labels: map[string]string{"example.com/team": "a"},
		Taints: []provider.Taint{{Key: "example.com/only", Value: "a", Effect: "NoSchedule"}},
	}
}

func (r *run) pause(d time.Duration) {
	if r.Pause != nil {
		r.Pause(d)
	}
}

// launchToEnd launches until the instance runs, and collects the refused attempts.
func (r *run) launchToEnd(p provider.Provider, c provider.Claim) (provider.Instance, []provider.RefusedOffering, error) {
	var attempts []provider.RefusedOffering
	for range steps {
		in, err := p.Launch(r.Context(), c)
		if err != nil {
			return in, attempts, err
		}
		attempts = append(attempts, in.Refused...)
		if in.State == provider.Running {
			return in, attempts, nil
		}
		if in.State != provider.Creating || in.RetryAfter <= 0 {
			return in, attempts, fmt.Errorf("launch is %s, to be repeated after %v: want Creating and a delay", in.State, in.RetryAfter)
		}
		r.pause(in.RetryAfter)
	}
	return provider.Instance{}, attempts, fmt.Errorf("claim %s is not running after %d steps", c.Name, steps)
}

func (r *run) launch(c provider.Claim) provider.Instance {
	r.Helper()
	in, _, err := r.launchToEnd(r.p, c)
	r.must(err)
	return in
}

// instances returns the instances that exist, in any state.
func (r *run) instances() []provider.Instance {
	r.Helper()
	list, err := r.p.List(r.Context())
	r.must(err)
	return list
}

func (r *run) wantOne(c provider.Claim) {
	r.Helper()
	list := r.instances()
	if len(list) != 1 || list[0].ClaimUID != c.UID {
		r.Fatalf("want one instance, for claim UID %s; got %+v", c.UID, list)
	}
}

// terminate repeats the call until the instance does not exist any more.
func (r *run) terminate(again func() error) {
	r.Helper()
	for range steps {
		err := again()
		if errors.Is(err, provider.ErrNotFound) {
			return
		}
		r.must(err)
		r.pause(time.Second)
	}
	r.Fatalf("the instance is not gone after %d steps", steps)
}

func (r *run) wantNothing() {
	r.Helper()
	if list := r.instances(); len(list) > 0 {
		r.Fatalf("instances are left: %+v", list)
	}
	if left := r.Residue(r.T); len(left) > 0 {
		r.Fatalf("left behind in the cloud: %v", left)
	}
}

func (r *run) each(n int, f func(i int) error) {
	r.Helper()
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	r.must(errors.Join(errs...))
}

func (r *run) equal(what string, want, got any) {
	r.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		r.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// cancelled returns a context that has ended.
func (r *run) cancelled() context.Context {
	ctx, cancel := context.WithCancel(r.Context())
	cancel()
	return ctx
}
