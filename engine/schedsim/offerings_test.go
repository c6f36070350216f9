// SPDX-License-Identifier: Apache-2.0

package schedsim

import (
	"testing"

	"github.com/karve-dev/karve/engine/enginetest"
)

// TestLaunchesCountAgainstLimits: a simulated launch takes one of the nodes that limits.nodes leaves,
// until it is taken back.
func TestLaunchesCountAgainstLimits(t *testing.T) {
	script, err := enginetest.Parse("type t cpu=4 price=1\npool limited limit:nodes=1\npod waits cpu=1\n")
	if err != nil {
		t.Fatal(err)
	}
	snapshot := script.Snapshot()
	c := New(snapshot)
	shape := snapshot.Classes[0].PodShape
	if got := c.offerings.cheapest(shape); got.catalog == nil {
		t.Fatal("no node can be launched before any was")
	}
	c.nodes.launch(snapshot.PoolCatalogs[0], 0)
	if got := c.offerings.cheapest(shape); got.catalog != nil {
		t.Error("a second node can be launched, the limit is one")
	}
	c.nodes.rollback()
	if got := c.offerings.cheapest(shape); got.catalog == nil {
		t.Error("no node can be launched after the launch was taken back")
	}
}
