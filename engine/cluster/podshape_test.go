// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"testing"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/quantity"
)

// TestDevicePluginComesAndGoes (Rule POD-8): when a device plugin is added to one node and
// removed again, only the memos about pods that request its devices are dropped.
func TestDevicePluginComesAndGoes(t *testing.T) {
	script, err := enginetest.Parse(`
type D4 cpu=4 mem=16Gi price=0.2 zones=1
pool web
node n1 cpu=8 mem=32Gi
pods plain cpu=1
pods tenant cpu=1 example.com/device=1
`)
	if err != nil {
		t.Fatal(err)
	}
	b := script.Builder()
	node := script.Nodes[0]
	plugin := func(n int64) {
		node.Allocatable = script.Nodes[0].Allocatable.Add(quantity.Amounts{"example.com/device": n})
		b.SetNode(node)
	}
	fits := func() map[string]*cluster.CompatibleOfferings {
		snapshot, out := b.Snapshot(), map[string]*cluster.CompatibleOfferings{}
		for _, c := range snapshot.Classes {
			out[c.PodsToPlace[0].Name] = snapshot.PoolCatalogs[0].Compatible(c.PodShape)
		}
		return out
	}
	plugin(1)
	before := fits()
	for i := range 6 {
		plugin(int64(i % 2))
		after := fits()
		if after["plain-1"] != before["plain-1"] {
			t.Errorf("change %d: pods that request no device were looked at again", i)
		}
		if after["tenant-1"] == before["tenant-1"] {
			t.Errorf("change %d: pods that request the device were not looked at again", i)
		}
		before = after
	}
}
