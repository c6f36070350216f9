// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/memory"
)

// blind launches, and for a while after that cannot report the state of its instances.
type blind struct {
	provider.Provider
	answer error // nil reports that the launch has to wait
	until  time.Time
}

func (p *blind) Launch(ctx context.Context, c provider.Claim) (provider.Instance, error) {
	in, err := p.Provider.Launch(ctx, c)
	if err != nil || p.until.IsZero() || time.Now().After(p.until) {
		return in, err
	}
	return provider.Instance{State: provider.Creating, RetryAfter: time.Minute}, p.answer
}

// A launch that was accepted is not given up for lack of an answer about it, however long that
// takes, while the node may still join; one that is known to have failed is.
//
// Rule VM-2.
func TestUnseenInstanceIsNotGivenUp(t *testing.T) {
	for name, answer := range map[string]error{"it fails": errors.New("service unavailable"), "it has to wait": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, p := launched(t, memory.Options{Create: time.Minute})
				p.answer, p.until = answer, time.Now().Add(8*time.Minute)
				claim := e.Claims()[0]
				e.Pace = 20 * time.Second
				e.Until(60, "an initialized claim", func() bool { e.Join(); return e.Ready() == 1 })
				if got := e.Claims(); len(got) != 1 || got[0].UID != claim.UID || e.Cloud.Launched() != 1 {
					t.Errorf("%d claims, %d instances were launched; want the first of each", len(got), e.Cloud.Launched())
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		e, _ := launched(t, memory.Options{Create: time.Hour})
		claim := e.Claims()[0]
		e.Pace = 20 * time.Second
		e.Until(30, "another claim", func() bool { return len(e.Claims()) > 0 && e.Claims()[0].UID != claim.UID })
	})
}

// launched returns a claim whose launch was accepted.
func launched(t *testing.T, o memory.Options) (*controllertest.Env, *blind) {
	t.Helper()
	e := controllertest.New(t, o)
	p := &blind{Provider: e.Provider}
	e.Lifecycle.Provider = p
	e.Create(controllertest.Pool("web", "Never"))
	e.Create(controllertest.Pod("web", "1", "1Gi"))
	e.Until(8, "a launch", func() bool { return len(e.Claims()) == 1 && e.Claims()[0].Status.ProviderID != "" })
	return e, p
}
