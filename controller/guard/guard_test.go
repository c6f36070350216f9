// SPDX-License-Identifier: Apache-2.0

package guard_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/karve-dev/karve/controller/guard"
)

// creations is a guard with the settings that karve has by default, over a fleet.
func creations(fleet *int) *guard.Guard {
	return &guard.Guard{What: "creations of NodeClaims", Flag: "max-creations-per-minute", PerMinute: 500, Share: 10,
		Fleet: func() int { return *fleet }, Held: prometheus.NewCounter(prometheus.CounterOpts{Name: "held"}), Log: logr.Discard()}
}

// takeFor takes single actions for so long, as fast as they are allowed, and counts them.
func takeFor(g *guard.Guard, d time.Duration) (taken int) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		if g.Take(1) == nil {
			taken++
			continue
		}
		time.Sleep(time.Second)
	}
	return taken
}

// Many at once pass in a small fleet. A loop that never ends gets what a minute allows.
//
// Rule GUARD-1.
func TestBurstPassesAndLoopIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := 5
		g := creations(&fleet)
		for range 2500 {
			if err := g.Take(1); err != nil {
				t.Fatal(err)
			}
		}
		err := g.Take(1)
		held := (*guard.Error)(nil)
		if !errors.As(err, &held) || held.RetryAfter != time.Second || !strings.Contains(err.Error(), "creations of NodeClaims wait for 1s") ||
			!strings.Contains(err.Error(), "500 a minute") || !strings.Contains(err.Error(), "--max-creations-per-minute") {
			t.Fatalf("more than 2500 at once: %v", err)
		}
		if got := testutil.ToFloat64(g.Held); got != 1 {
			t.Errorf("%v were counted as held, want 1", got)
		}
		if got := takeFor(g, 10*time.Minute); got < 4900 || got > 5000 {
			t.Errorf("%d in ten minutes, want 500 a minute", got)
		}
		time.Sleep(5 * time.Minute)
		if err := g.Take(2500); err != nil {
			t.Errorf("after five minutes of rest: %v", err)
		}
	})
}

// A large fleet is allowed a share of it a minute, by its size before the last half hour: nodes
// that a loop creates do not speed it up.
//
// Rule GUARD-2.
func TestShareIsOfTheFleetAsItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := 10000
		g := creations(&fleet)
		if err := g.Take(5000); err != nil {
			t.Fatalf("half of a fleet of 10000: %v", err)
		}
		fleet = 100000 // by what the loop has created
		if got := takeFor(g, 10*time.Minute); got < 9900 || got > 10000 {
			t.Errorf("%d in ten minutes, want 1000 a minute", got)
		}
		fleet = 100 // and now it is small
		if got := takeFor(g, 10*time.Minute); got < 4900 || got > 5000 {
			t.Errorf("%d in ten minutes, want 500 a minute", got)
		}
	})
}

// One action that is larger than all that is saved is allowed when nothing was taken lately, and
// paid back by the next; what did not happen is given back.
//
// Rule GUARD-1.
func TestLargeActionIsPaidBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := 5
		g := creations(&fleet)
		if err := g.Take(3000); err != nil {
			t.Fatal(err)
		}
		time.Sleep(59 * time.Second)
		if err := g.Take(1); err == nil {
			t.Error("the 500 that were too many are not paid back")
		}
		g.Give(3000)
		if err := g.Take(2000); err != nil {
			t.Errorf("after it was given back: %v", err)
		}
	})
}

// Without a limit nothing is held.
//
// Rule GUARD-3.
func TestNoLimitHoldsNothing(t *testing.T) {
	for _, g := range []*guard.Guard{nil, {}} {
		if err := g.Take(1e6); err != nil {
			t.Error(err)
		}
		g.Give(1)
	}
}
