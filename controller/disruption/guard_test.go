// SPDX-License-Identifier: Apache-2.0

package disruption_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/karve-dev/karve/controller/guard"
	"github.com/karve-dev/karve/engine/disrupt"
)

// A move that the guards hold back leaves no mark, and is made once they allow it.
//
// Rule GUARD-3.
func TestHeldMoveIsMadeLater(t *testing.T) {
	for name, guards := range map[string]func() (guard.Guards, *guard.Guard){
		"deletions": func() (guard.Guards, *guard.Guard) { g := slow(); return guard.Guards{Deletions: g}, g },
		"creations": func() (guard.Guards, *guard.Guard) { g := slow(); return guard.Guards{Creations: g}, g },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, s := scripted(t, 2, disrupt.Underutilized)
				held, exhausted := guards()
				e.Guards = held
				e.Restart()
				if err := exhausted.Take(5); err != nil {
					t.Fatal(err)
				}
				s.off = false
				e.Steps(4)
				if taintedNodes(e) != 0 || len(e.Claims()) != 2 || !unmarked(e) {
					t.Fatalf("%d nodes are tainted, %d claims of 2", taintedNodes(e), len(e.Claims()))
				}
				if texts := e.EventTexts("web"); !slices.ContainsFunc(texts, func(s string) bool {
					return strings.HasPrefix(s, "DisruptionBlocked: Nodes are disrupted later: deletions wait for")
				}) {
					t.Errorf("the NodePool says %q", texts)
				}
				start := time.Now()
				e.Until(120, "one node that runs everything", func() bool { live(e, 2); return settled(e, 2) })
				if took := time.Since(start); took > 6*time.Minute {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

// slow is a guard that allows one action a minute.
func slow() *guard.Guard {
	return &guard.Guard{What: "deletions", Flag: "max-voluntary-deletions-per-minute", PerMinute: 1, Log: logr.Discard()}
}
