// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"time"

	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/test/scarcity"
)

// The controllers' times.
const (
	launchTimeout       = 5 * time.Minute
	registrationTimeout = 15 * time.Minute
	joinsBy             = 3 * time.Minute  // then a VM is asked about,
	askAgain            = time.Minute      // and this often
	silence             = 40 * time.Second // of a kubelet, until its node is not ready
	recheck             = 10 * time.Second // of a node that is not
	endPoll             = 2 * time.Second
	firstRetry          = 200 * time.Millisecond
	lastRetry           = time.Minute
	replan              = 10 * time.Second // until pods without a VM have another claim
)

// claim is a NodeClaim as the API stores it. Its controller writes what it stores, all else is
// written by others; the lock of claims guards both.
type claim struct {
	provider.Claim
	order  int
	id     string // provider ID
	unseen bool   // the VM was accepted and cannot be seen

	changed chan struct{} // holds a token when something below may have changed
	node    bool          // its node reports
	joined  bool          // it did once
	silent  time.Time     // since when it does not
	lost    bool          // it is to end: its VM is gone or will be
}

// controllers are what provisions, follows and ends claims, as karve's do.
type controllers struct {
	claims    *claims
	catalog   *catalog
	seed      uint64
	dismissed <-chan struct{}
}

// serve keeps one claim after the other alive, until no node is needed any more. It makes none
// while there is no offering.
func (k *controllers) serve(ctx context.Context, order int) {
	replaces := false
	for n := 0; k.needed(ctx); n++ {
		if len(k.catalog.choices(order)) == 0 {
			k.waitForBatch(ctx)
			continue
		}
		if replaces = k.serveClaim(ctx, order, n, replaces); k.needed(ctx) && !replaces {
			k.waitForBatch(ctx)
		}
	}
}

// serveClaim makes a claim and sees it to its end. It reports whether its VM was lost.
func (k *controllers) serveClaim(ctx context.Context, order, n int, replaces bool) bool {
	c := k.claims.create(k.seed, order, n, replaces)
	if k.launch(ctx, c) {
		k.watchVM(ctx, c)
	}
	k.end(ctx, c)
	return k.claims.everJoined(c)
}

// waitForBatch waits until pods are planned for again.
func (k *controllers) waitForBatch(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-k.dismissed:
	case <-time.After(replan):
	}
}

func (k *controllers) needed(ctx context.Context) bool {
	select {
	case <-k.dismissed:
		return false
	default:
		return ctx.Err() == nil
	}
}

// pause waits, less when the claim has changed or is not needed any more.
func (k *controllers) pause(ctx context.Context, c *claim, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-k.dismissed:
	case <-c.changed:
	case <-time.After(d):
	}
}

// launch drives the claim until its VM runs, as the lifecycle does. It reports false
// when the claim is to end.
func (k *controllers) launch(ctx context.Context, c *claim) bool {
	var again retry
	for begun := time.Now(); k.needed(ctx) && !k.claims.isLost(c); {
		in, err := k.instance(ctx, c)
		k.claims.store(c, in, err)
		wait := cmp.Or(in.RetryAfter, time.Second)
		switch {
		case errors.As(err, new(*provider.CapacityError)) || errors.As(err, new(*provider.NotReadyError)):
			return false
		case err != nil:
			wait = again.after()
		case in.State == provider.Running || in.Type != "" && k.claims.reports(c):
			return true
		default:
			again = retry{}
		}
		if time.Since(begun) > c.launchTimeout() {
			return false
		}
		k.pause(ctx, c, wait)
	}
	return false
}

// launchTimeout is how long a launch may take.
func (c *claim) launchTimeout() time.Duration {
	if c.unseen {
		return registrationTimeout
	}
	return launchTimeout
}

// instance goes on with the launch. When there is no offering any more, only a VM that exists
// counts.
func (k *controllers) instance(ctx context.Context, c *claim) (provider.Instance, error) {
	if choices := k.catalog.choices(c.order); len(choices) > 0 {
		chosen := c.Claim
		chosen.Offerings, chosen.LaunchState = choices, maps.Clone(c.LaunchState)
		return k.catalog.provider.Launch(ctx, chosen)
	}
	nothing := &provider.CapacityError{Claim: c.Name}
	if c.id == "" {
		return provider.Instance{}, nothing
	}
	in, err := k.catalog.provider.Get(ctx, c.id)
	if errors.Is(err, provider.ErrNotFound) || err == nil && in.State != provider.Creating && in.State != provider.Running {
		return provider.Instance{}, nothing
	}
	return in, err
}

// watchVM watches over a VM that runs, until its claim is to end.
func (k *controllers) watchVM(ctx context.Context, c *claim) {
	var again retry
	for launched := time.Now(); k.needed(ctx) && !k.claims.isLost(c); {
		wait, ask := k.claims.nextLook(c, launched)
		if wait == 0 {
			return
		}
		if ask {
			in, err := k.catalog.provider.Get(ctx, c.id)
			switch {
			case errors.Is(err, provider.ErrNotFound) || err == nil && in.State.Lost():
				return
			case err != nil:
				wait = max(wait, again.after())
			default:
				again = retry{}
			}
		}
		k.pause(ctx, c, wait)
	}
}

// end terminates the VM of the claim, and then removes the claim.
func (k *controllers) end(ctx context.Context, c *claim) {
	var again retry
	for ctx.Err() == nil {
		var err error
		if c.id != "" {
			err = k.catalog.provider.Terminate(ctx, c.id)
		} else {
			err = k.catalog.provider.TerminateByClaim(ctx, c.Claim)
		}
		wait := endPoll
		switch {
		case errors.Is(err, provider.ErrNotFound):
			k.claims.remove(c)
			return
		case err != nil:
			wait = again.after()
		default:
			again = retry{}
		}
		_ = scarcity.Sleep(ctx, wait) // the loop sees it
	}
}

func (c *claim) wake() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// retry is the back-off of a controller's queue. The zero retry has not failed.
type retry struct{ next time.Duration }

func (r *retry) after() time.Duration {
	r.next = min(max(2*r.next, firstRetry), lastRetry)
	return r.next
}
