// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/provider"
)

// The observed memory of a size counts for its next node: pods get more of it, and the
// reservation stays the same. The least observed value counts, and implausible ones are ignored.
//
// Rule CATALOG-2.
func TestSeenMemoryCounts(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small()
	p := r.provider(t)
	const advertised = 16384 << 20
	see := func(size string, bytes int64) {
		t.Helper()
		if err := p.ObserveCapacity(t.Context(), provider.ObservedCapacity{Type: size, Memory: bytes}); err != nil {
			t.Fatal(err)
		}
	}
	see("Standard_D4ds_v5", advertised+1) // before any other request to the region
	first := snapshot(t, p)
	before := mustFind(t, first, "Standard_D4ds_v5")
	for _, test := range []struct {
		name       string
		seen, want int64
	}{
		{"a whole MiB", 15_900<<20 + 1000, 15_900 << 20},
		{"a larger one", 16_000 << 20, 15_900 << 20},
		{"a smaller one", 15_800 << 20, 15_800 << 20},
		{"more than was paid for", advertised + 1, 15_800 << 20},
		{"hardly any", 1 << 30, 15_800 << 20},
		{"less than nothing", -1, 15_800 << 20},
	} {
		see("Standard_D4ds_v5", test.seen)
		now := mustFind(t, snapshot(t, p), "Standard_D4ds_v5")
		if got := now.Capacity["memory"]; got != test.want {
			t.Errorf("%s: %d MiB of memory, want %d", test.name, got>>20, test.want>>20)
		}
		if now.Overhead["memory"] != before.Overhead["memory"] || now.Capacity["cpu"] != before.Capacity["cpu"] {
			t.Errorf("%s: overhead %v, capacity %v", test.name, now.Overhead, now.Capacity)
		}
		if now.Capacity.Sub(now.Overhead)["memory"] <= before.Capacity.Sub(before.Overhead)["memory"] {
			t.Errorf("%s: what was learnt leaves pods no more", test.name)
		}
	}
	last := snapshot(t, p)
	see("Standard_D4ds_v5", 15_800<<20)
	see("Standard_Nonsense", 15_800<<20)
	if snapshot(t, p) != last {
		t.Error("nothing new was seen, and the catalog is another")
	}
	if other := mustFind(t, last, "Standard_D8ds_v5"); other.Capacity["memory"] != mustFind(t, first, "Standard_D8ds_v5").Capacity["memory"] {
		t.Error("another size learnt from it")
	}
	in, _ := run(t, p, claim("a", onDemand("Standard_D4ds_v5", "eastus-1")))
	if in.Capacity["memory"] != 15_800<<20 {
		t.Errorf("the VM that was launched has %d MiB", in.Capacity["memory"]>>20)
	}
}

// Rule SETTING-3.
func TestNoMemoryOverheadIsNone(t *testing.T) {
	for _, test := range []struct {
		share *float64
		want  int64
	}{
		{nil, 15891378995},
		{to.Ptr(0.0), 16 << 30},
		{to.Ptr(0.5), 8 << 30},
	} {
		r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small()
		r.options.VMMemoryOverheadPercent = test.share
		if got := mustFind(t, snapshot(t, r.provider(t)), "Standard_D4ds_v5").Capacity["memory"]; got != test.want {
			t.Errorf("with a share of %v a VM of 16 GiB has %d bytes, want %d", test.share, got, test.want)
		}
	}
}
