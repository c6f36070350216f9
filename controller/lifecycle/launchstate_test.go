// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/memory"
)

// forgetful asks to keep launch state while its instances are created, and records the state it
// is called with.
type forgetful struct {
	provider.Provider
	given []string
}

const remembered = "karve.dev/test-operation"

func (p *forgetful) Launch(ctx context.Context, c provider.Claim) (provider.Instance, error) {
	p.given = append(p.given, c.LaunchState[remembered])
	in, err := p.Provider.Launch(ctx, c)
	in.LaunchState = map[string]string{remembered: "one"}
	return in, err
}

// The provider's launch state is on the claim before the next call of Launch, by whatever
// process, and is removed when the launch is over.
//
// Rule VM-3.
func TestLaunchStateIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{Create: 10 * time.Second})
		p := &forgetful{Provider: e.Provider}
		e.Lifecycle.Provider = p
		e.Create(controllertest.Pool("web", "Never"))
		e.Create(controllertest.Pod("web", "1", "1Gi"))
		e.Until(8, "a launch", func() bool { return len(p.given) > 0 })
		if got := e.Claims()[0].Annotations[remembered]; got != "one" {
			t.Fatalf("remembered %q", got)
		}
		e.Restart()
		p.Provider = e.Provider
		e.Lifecycle.Provider = p
		asked := len(p.given)
		e.Until(20, "an initialized claim", func() bool { e.Join(); return e.Ready() == 1 })
		if len(p.given) == asked || p.given[asked] != "one" {
			t.Errorf("the next process was given %v", p.given[asked:])
		}
		if got, left := e.Claims()[0].Annotations[remembered]; left {
			t.Errorf("still remembered after the launch: %q", got)
		}
		if got, left := e.Nodes()[0].Annotations[remembered]; left {
			t.Errorf("the node has it: %q", got)
		}
	})
}
