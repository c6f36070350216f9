// SPDX-License-Identifier: Apache-2.0

package sku

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
)

func rawSKU(name, family string, capabilities map[string]string) *armcompute.ResourceSKU {
	s := &armcompute.ResourceSKU{Name: to.Ptr(name), Family: to.Ptr(family), ResourceType: to.Ptr("virtualMachines"),
		LocationInfo: []*armcompute.ResourceSKULocationInfo{{Location: to.Ptr("EastUS"), Zones: []*string{to.Ptr("3"), to.Ptr("1")}}}}
	for k, v := range capabilities {
		s.Capabilities = append(s.Capabilities, &armcompute.ResourceSKUCapabilities{Name: to.Ptr(k), Value: to.Ptr(v)})
	}
	return s
}

// One malformed size must not hide the others.
func TestMalformedSKUsAreSkippedAndNoted(t *testing.T) {
	good := map[string]string{"vCPUs": "4", "MemoryGB": "16", "HyperVGenerations": "V1,V2"}
	raw := []*armcompute.ResourceSKU{
		nil,
		rawSKU("Standard_D4s_v5", "standardDSv5Family", good),
		rawSKU("Standard_D8s_v5", "StandardDSV5family", good),
		rawSKU("Standard_E4s_v5", "standardESv5Family", map[string]string{"MemoryGB": "32", "HyperVGenerations": "V2"}),
		rawSKU("Standard_E8s_v5", "standardESv5Family", map[string]string{"vCPUs": "many", "MemoryGB": "32", "HyperVGenerations": "V2"}),
		rawSKU("Standard_F4s_v2", "standardFSv2Family", map[string]string{"vCPUs": "4", "MemoryGB": "NaN", "HyperVGenerations": "V2"}),
		rawSKU("not a size", "x", good),
		rawSKU("Standard_D4s_v6", "", good),
		{ResourceType: to.Ptr("disks"), Name: to.Ptr("Premium_LRS")},
		{ResourceType: to.Ptr("virtualMachines")},
	}
	set := parseAll(raw, "eastus", slog.New(slog.DiscardHandler))
	if len(set.List) != 2 || len(set.Unread) != 6 {
		t.Fatalf("%d sizes and %q unread, want 2 and 6", len(set.List), set.Unread)
	}
	if set.List[0].Family != set.List[1].Family {
		t.Errorf("one family is spelled %q and %q", set.List[0].Family, set.List[1].Family)
	}
	if zones := strings.Join(set.List[0].Zones, ","); zones != "1,3" {
		t.Errorf("zones %s", zones)
	}
}

// A size that does not report its number of data disks is not treated as having none.
func TestDataDisks(t *testing.T) {
	for value, want := range map[string]int64{"": -1, "0": 0, "16": 16} {
		c := map[string]string{"vCPUs": "4", "MemoryGB": "16", "HyperVGenerations": "V2"}
		if value != "" {
			c["MaxDataDiskCount"] = value
		}
		s, err := parse(rawSKU("Standard_D4s_v5", "standardDSv5Family", c), "eastus")
		if err != nil || s.DataDisks != want {
			t.Errorf("%q: %d disks, %v; want %d", value, s.DataDisks, err, want)
		}
	}
}
