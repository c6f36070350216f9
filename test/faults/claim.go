package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/test/scarcity"
)

// The controllers' times.
const (
	launchTimeout       = 5 * time.Minute
	registrationTimeout = 15 * time.Minute
	joinsBy             = 3 * time.Minute  // then a machine is asked about,
	askAgain            = time.Minute      // and this often
	silence             = 40 * time.Second // of a kubelet, until its node is not ready
	recheck             = 10 * time.Second // of a node that is not
	endPoll             = 2 * time.Second
	firstRetry          = 200 * time.Millisecond
	lastRetry           = time.Minute
	replan              = 10 * time.Second // until pods without a machine have another claim
)

// A claim is a NodeClaim as the API stores it. Who serves it writes what it stores, and all
// else is written by others; the town guards both.
type claim struct {
	provider.Claim
	order  int
	id     string // provider ID
	unseen bool   // the machine was accepted and cannot be seen

	changed chan struct{} // holds a token when something below may have changed
	node    bool          // its node reports
	joined  bool          // it did once
	silent  time.Time     // since when it does not
	lost    bool          // it is to end: its machine is gone or will be
}

// serve keeps one claim after the other alive, until no machine is needed any more. There
// is none while nothing is on sale.
func (t *town) serve(ctx context.Context, order int) {
	replaces := false
	for n := 0; t.needed(ctx); n++ {
		if len(t.market.choices(order)) == 0 {
			t.rest(ctx)
			continue
		}
		if replaces = t.try(ctx, order, n, replaces); t.needed(ctx) && !replaces {
			t.rest(ctx)
		}
	}
}

// try makes a claim and sees it to its end. It reports whether its machine was lost.
func (t *town) try(ctx context.Context, order, n int, replaces bool) bool {
	c := t.create(order, n, replaces)
	if t.launch(ctx, c) {
		t.attend(ctx, c)
	}
	t.end(ctx, c)
	t.mu.Lock()
	defer t.mu.Unlock()
	return c.joined
}

// rest waits until pods are planned for again.
func (t *town) rest(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-t.dismissed:
	case <-time.After(replan):
	}
}

func (t *town) needed(ctx context.Context) bool {
	select {
	case <-t.dismissed:
		return false
	default:
		return ctx.Err() == nil
	}
}

// pause waits, less when the claim has changed or is not needed any more.
func (t *town) pause(ctx context.Context, c *claim, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-t.dismissed:
	case <-c.changed:
	case <-time.After(d):
	}
}

func (t *town) create(order, n int, replaces bool) *claim {
	c := &claim{order: order, changed: make(chan struct{}, 1), Claim: provider.Claim{
		Name: fmt.Sprintf("siege-%d-%d", order, n), UID: fmt.Sprintf("uid-%d-%d-%d", t.options.Seed, order, n),
		Pool: "siege", Class: className, Urgent: replaces,
	}}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.claims[c.UID], t.made = c, t.made+1
	return c
}

// launch drives the claim until its machine runs, as the lifecycle does. It reports false
// when the claim is to end.
func (t *town) launch(ctx context.Context, c *claim) bool {
	var again retry
	for begun := time.Now(); t.needed(ctx) && !t.isLost(c); {
		in, err := t.buy(ctx, c)
		t.store(c, in, err)
		wait := cmp.Or(in.RetryAfter, time.Second)
		switch {
		case errors.As(err, new(*provider.CapacityError)) || errors.As(err, new(*provider.NotReadyError)):
			return false
		case err != nil:
			wait = again.after()
		case in.State == provider.Running || in.Type != "" && t.reports(c):
			return true
		default:
			again = retry{}
		}
		if time.Since(begun) > c.patience() {
			return false
		}
		t.pause(ctx, c, wait)
	}
	return false
}

// store notes on the claim what a launch said.
func (t *town) store(c *claim, in provider.Instance, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if in.ProviderID != "" {
		c.id, c.unseen = in.ProviderID, false
	}
	c.LaunchState = remembered(c.LaunchState, in.LaunchState)
	if err != nil && c.id != "" {
		c.unseen = true
	}
}

// patience is how long a launch may take.
func (c *claim) patience() time.Duration {
	if c.unseen {
		return registrationTimeout
	}
	return launchTimeout
}

// buy goes on with the purchase. When nothing is on sale any more, only a machine that
// exists counts.
func (t *town) buy(ctx context.Context, c *claim) (provider.Instance, error) {
	if choices := t.market.choices(c.order); len(choices) > 0 {
		bought := c.Claim
		bought.Offerings, bought.LaunchState = choices, maps.Clone(c.LaunchState)
		return t.market.provider.Launch(ctx, bought)
	}
	nothing := &provider.CapacityError{Claim: c.Name}
	if c.id == "" {
		return provider.Instance{}, nothing
	}
	in, err := t.market.provider.Get(ctx, c.id)
	if errors.Is(err, provider.ErrNotFound) || err == nil && in.State != provider.Creating && in.State != provider.Running {
		return provider.Instance{}, nothing
	}
	return in, err
}

// remembered is what a claim remembers when it is told more; an empty value forgets.
func remembered(had, told map[string]string) map[string]string {
	if len(told) == 0 {
		return had
	}
	all := maps.Clone(told)
	for key, value := range had {
		if _, changed := told[key]; !changed {
			all[key] = value
		}
	}
	maps.DeleteFunc(all, func(_, value string) bool { return value == "" })
	return all
}

// attend watches over a machine that runs, until its claim is to end.
func (t *town) attend(ctx context.Context, c *claim) {
	var again retry
	for launched := time.Now(); t.needed(ctx) && !t.isLost(c); {
		wait, ask := t.doubt(c, launched)
		if wait == 0 {
			return
		}
		if ask {
			in, err := t.market.provider.Get(ctx, c.id)
			switch {
			case errors.Is(err, provider.ErrNotFound) || err == nil && in.State.Lost():
				return
			case err != nil:
				wait = max(wait, again.after())
			default:
				again = retry{}
			}
		}
		t.pause(ctx, c, wait)
	}
}

// doubt says when to look at a claim next, and whether its machine must be asked about
// now; at once (zero) when the claim is given up.
func (t *town) doubt(c *claim, launched time.Time) (wait time.Duration, ask bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch since := time.Since(launched); {
	case c.node:
		return time.Hour, false
	case c.joined:
		quiet := time.Since(c.silent)
		return max(silence-quiet, recheck), quiet >= silence
	case since > registrationTimeout:
		return 0, false
	default:
		return max(joinsBy-since, askAgain), since >= joinsBy
	}
}

// end gives back what the claim has, and then the claim is no more.
func (t *town) end(ctx context.Context, c *claim) {
	var again retry
	for ctx.Err() == nil {
		var err error
		if c.id != "" {
			err = t.market.provider.Terminate(ctx, c.id)
		} else {
			err = t.market.provider.TerminateUnclaimed(ctx, c.Claim)
		}
		wait := endPoll
		switch {
		case errors.Is(err, provider.ErrNotFound):
			t.remove(c)
			return
		case err != nil:
			wait = again.after()
		default:
			again = retry{}
		}
		_ = scarcity.Sleep(ctx, wait) // the loop sees it
	}
}

func (t *town) remove(c *claim) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.claims, c.UID)
	if c.joined {
		delete(t.joined, c.order)
	}
}

func (t *town) isLost(c *claim) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return c.lost
}

func (t *town) reports(c *claim) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return c.node
}

// lose has a claim end whose machine is gone or will be.
func (t *town) lose(c *claim) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.lost = true
	c.poke()
}

func (c *claim) poke() {
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
