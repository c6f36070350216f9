// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"testing"
	"time"

	"github.com/karve-dev/karve/engine/disrupt"
)

// TestUndoneMovesGetRare: a Decider that omits the launches of its moves has the same pods
// evicted and the same nodes launched again and again. With Rule CONSOLIDATION-23 in the executor
// a pause doubles each time, from half a minute to six hours.
func TestUndoneMovesGetRare(t *testing.T) {
	c := withCheaperType(brokenDecider{late: func(m *disrupt.Move) { m.Launches = nil }}, 12)
	for _, z := range zones { // the replacement is as expensive as the node before
		c.catalog.launchFails[offeringKey{"D4as", z, "on-demand"}] = true
	}
	c.Live(20 * time.Hour)
	early := c.Stats
	c.Live(24 * time.Hour)
	t.Logf("first %+v, then %+v", early, c.Stats)
	if early.Pauses < 8 {
		t.Errorf("the pool was paused %d times, want more for this test", early.Pauses)
	}
	if n := c.Stats.Pauses - early.Pauses; n < 3 || n > 4 {
		t.Errorf("%d undone moves in a day, want one in six hours", n)
	}
}
