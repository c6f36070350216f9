// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/provider/memory"
)

// At whatever write karve fails or dies, a scale-up ends with exactly one instance per claim, and
// the scale-down after it with none.

// Rule LAUNCH-3.
func TestOneInstancePerClaimWhateverWriteFails(t *testing.T) {
	for mode, pods := range map[controllertest.Mode]int{
		controllertest.DieAfter: 2, // the hardest mode, so with claims that can be confused
		controllertest.Refuse:   1, controllertest.LoseAnswer: 1,
	} {
		t.Run(string(mode), func(t *testing.T) {
			for at, struck := 1, true; struck; at++ {
				synctest.Test(t, func(t *testing.T) { struck = upAndDown(t, pods, mode, at) })
				if t.Failed() {
					t.Fatalf("%s write %d", mode, at)
				}
			}
		})
	}
}

// upAndDown launches nodes for some pods, removes the pods again, and reports whether the fault
// occurred.
func upAndDown(t *testing.T, pods int, mode controllertest.Mode, at int) (struck bool) {
	e := controllertest.New(t, memory.Options{Create: 2 * time.Second, Delete: time.Second})
	e.Faults.Mode, e.Faults.At = mode, at
	e.Create(controllertest.Pool("web", "1s"))
	for i := range pods {
		e.Create(controllertest.Pod(fmt.Sprintf("web-%d", i), "31", "40Gi")) // one node each
	}
	e.Until(60, "an initialized claim per pod", func() bool {
		e.Join()
		return e.Ready() == pods
	})
	if got := len(e.Cloud.ProviderIDs()); got != pods {
		t.Errorf("%d instances for %d claims", got, len(e.Claims()))
	}
	if e.Cloud.Launched() != pods {
		t.Errorf("launched %d instances, %d were needed", e.Cloud.Launched(), pods)
	}
	for _, p := range e.Pods() {
		e.Delete(&p)
	}
	e.Pace = 5 * time.Second // nominations take a while to lapse
	e.Until(60, "everything gone", func() bool {
		return len(e.Claims()) == 0 && len(e.Nodes()) == 0 && len(e.Cloud.ProviderIDs()) == 0
	})
	return e.Faults.Writes() >= at
}
