package azure_test

import (
	"testing"

	"github.com/karve-dev/karve/provider/azure/emulator"
)

// A size whose machine joined without its GPU rests everywhere for its class; other sizes do not,
// nor does it for other classes.
//
// Rule 297.
func TestUselessSizesRest(t *testing.T) {
	r := newRegion(t, emulator.Options{SystemNodes: -1}).small().twoClasses()
	p := r.provider(t)
	snapshot(t, p)
	before, _ := blocked(t, p, "other")
	p.Useless("default", onDemand("Standard_D4s_v5", "eastus-1"), `Resource "nvidia.com/gpu" was requested but not registered`)
	p.Useless("default", onDemand("Standard_Z99", "eastus-1"), "nobody knows this size")
	if now, why := blocked(t, p, "other"); now != before {
		t.Errorf("another class lost %d offers: %s", now-before, why)
	}
	s := snapshot(t, p)
	for _, o := range mustFind(t, s, "Standard_D4s_v5").Offers {
		if o.Unavailable == "" {
			t.Errorf("the size is still on sale in %s as %s", o.Zone, o.CapacityType)
		}
	}
	for _, o := range mustFind(t, s, "Standard_D8s_v5").Offers {
		if o.Unavailable != "" {
			t.Errorf("a larger size of its family rests too: %s", o.Unavailable)
		}
	}
}
