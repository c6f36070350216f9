// SPDX-License-Identifier: Apache-2.0

package static_test

import (
	"testing"
	"testing/synctest"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/provider/memory"
)

// While karve is paused, a static NodePool keeps the nodes that are too many, and gets those that
// it lacks.
//
// Rule PAUSE-1.
func TestPausedClusterKeepsSurplus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{})
		e.Create(pool(2, ""))
		e.Until(60, "two nodes", func() bool { e.Join(); return len(e.Nodes()) == 2 })
		e.Control(kube.PauseAnnotation, "true")
		scale(t, e, 1)
		e.Steps(90)
		if got := len(e.Claims()); got != 2 {
			t.Fatalf("%d claims, want 2", got)
		}
		scale(t, e, 3)
		e.Until(60, "three nodes", func() bool { e.Join(); return len(e.Nodes()) == 3 })
		e.Control(kube.PauseAnnotation, "")
		scale(t, e, 1)
		e.Until(60, "one node left", func() bool { return len(e.Claims()) == 1 })
	})
}
