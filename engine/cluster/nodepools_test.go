// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"testing"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
)

// TestRemovedCatalogOffersNothing: once the instance types of a node class are removed, no
// catalog counts as offering their resources.
func TestRemovedCatalogOffersNothing(t *testing.T) {
	const device = "example.com/device"
	b := cluster.NewBuilder()
	b.SetPool(cluster.NodePool{Name: "p", NodeClass: "c", Limits: quantity.Amounts{device: 8}})
	types := []offering.InstanceType{{Name: "D8", Capacity: quantity.Amounts{device: 1}}}
	for range 2 {
		b.SetCatalog("c", types, nil)
		if s := b.Snapshot(); !s.Resources.IsOfferedBy(quantity.Catalogs, device) {
			t.Error("the catalog does not offer the device")
		}
		b.RemoveCatalog("c")
		if s := b.Snapshot(); s.Resources.IsOfferedBy(quantity.Catalogs, device) {
			t.Error("a removed catalog still offers the device")
		}
	}
}
