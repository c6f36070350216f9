// SPDX-License-Identifier: Apache-2.0

package provision_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/controller/guard"
	"github.com/karve-dev/karve/provider/memory"
)

// Pods whose NodeClaims the guard holds back get them later, a minute's worth each minute; the
// NodePool says what they wait for.
//
// Rule GUARD-3.
func TestHeldLaunchesComeLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{})
		e.Guards.Creations = &guard.Guard{What: "creations of NodeClaims", Flag: "max-creations-per-minute", PerMinute: 2, Log: logr.Discard()}
		e.Restart()
		e.Create(controllertest.Pool("web", "Never"))
		for i := range 16 {
			e.Create(controllertest.Pod(fmt.Sprint("web-", i), "31", "1Gi")) // one node each
		}
		e.Steps(10)
		if got := len(e.Claims()); got != 10 {
			t.Fatalf("%d claims at once, want 10", got)
		}
		if texts := e.EventTexts("web"); !slices.ContainsFunc(texts, func(s string) bool {
			return strings.HasPrefix(s, "LaunchesHeld: Nodes for pending pods are launched later: creations of NodeClaims wait for")
		}) {
			t.Errorf("the NodePool says %q", texts)
		}
		e.Steps(60)
		if got := len(e.Claims()); got != 12 {
			t.Errorf("%d claims a minute later, want 12", got)
		}
		start := time.Now()
		e.Until(300, "a claim for each pod", func() bool { return len(e.Claims()) == 16 })
		if took := time.Since(start); took > 3*time.Minute || e.Cloud.Launched() > 16 {
			t.Errorf("it took %s, and %d instances", took, e.Cloud.Launched())
		}
	})
}
