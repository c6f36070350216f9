// SPDX-License-Identifier: Apache-2.0

package disruption_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/controller/disruption"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/kube"
)

// While karve is paused no move is begun, whatever its cause; nodes for pending pods are launched,
// and the NodePool says why its nodes stay. Afterwards the move is made.
//
// Rule PAUSE-1. Rule PAUSE-3.
func TestPausedClusterBeginsNoMove(t *testing.T) {
	for _, cause := range []disrupt.Cause{disrupt.Underutilized, disrupt.Empty, disrupt.Drifted, disrupt.Expired} {
		t.Run(string(cause), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, s := scripted(t, 2, cause)
				e.Control(kube.PauseAnnotation, "change freeze")
				s.off = false
				e.Steps(120)
				if taintedNodes(e) != 0 || len(e.Claims()) != 2 || e.Counter("karve_paused") != 1 {
					t.Fatalf("%d nodes are tainted, %d claims of 2; karve_paused is %v", taintedNodes(e), len(e.Claims()), e.Counter("karve_paused"))
				}
				for _, name := range []string{"big-2", "big-3", "big-4"} { // two of which fit
					e.Create(controllertest.Pod(name, "31", "1Gi"))
				}
				e.Until(20, "a claim for the pending pods", func() bool { return len(e.Claims()) == 3 })
				if texts := e.EventTexts("web"); !slices.ContainsFunc(texts, func(s string) bool {
					return strings.HasPrefix(s, "DisruptionBlocked: No node is disrupted voluntarily") && strings.Contains(s, "change freeze")
				}) {
					t.Errorf("the NodePool says %q", texts)
				}
				for _, name := range []string{"big-2", "big-3", "big-4"} {
					e.Delete(controllertest.Get(e, &corev1.Pod{}, name))
				}
				e.Control(kube.PauseAnnotation, "")
				e.Until(60, "a move", func() bool { e.Join(); return taintedNodes(e) > 0 || deleted(e) })
			})
		})
	}
}

// A move that has begun when karve is paused comes to its end, also in another process.
//
// Rule PAUSE-1.
func TestPauseLetsBegunMovesEnd(t *testing.T) {
	for name, between := range map[string]func(*controllertest.Env){
		"same process":    func(*controllertest.Env) {},
		"another process": (*controllertest.Env).Restart,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, s := scripted(t, 2, disrupt.Underutilized)
				s.off = false
				e.Until(20, "a replacement", func() bool { return replacement(e) != nil })
				e.Control(kube.PauseAnnotation, "true")
				between(e)
				e.Until(60, "one node that runs everything", func() bool { live(e, 2); return settled(e, 2) })
			})
		})
	}
}

// A consolidation that still waits to be validated has not begun: it is dropped.
//
// Rule PAUSE-1.
func TestPauseDropsChosenMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := scripted(t, 2, disrupt.Underutilized)
		inner := e.Disrupt
		e.Disrupt = func(o *disruption.Options) { inner(o); o.Validation = time.Minute }
		e.Restart()
		s.off = false
		chosen := func() bool {
			return slices.ContainsFunc(e.EventTexts(e.Claims()[0].Name), func(s string) bool { return strings.HasPrefix(s, "ConsolidationCandidate: ") })
		}
		e.Until(20, "a chosen move", chosen)
		e.Control(kube.PauseAnnotation, "true")
		e.Steps(60)
		if taintedNodes(e) != 0 || len(e.Claims()) != 2 {
			t.Errorf("%d nodes are tainted, %d claims of 2", taintedNodes(e), len(e.Claims()))
		}
	})
}
