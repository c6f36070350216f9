// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karve-dev/karve/provider/azure/vmsize"
)

// allSizes gives the embedded catalogue, by name too.
func allSizes(t testing.TB) ([]Size, map[string]Size) {
	t.Helper()
	sizes, err := Sizes()
	if err != nil {
		t.Fatal(err)
	}
	byName := make(map[string]Size, len(sizes))
	for _, s := range sizes {
		byName[s.Name] = s
	}
	if len(byName) != len(sizes) {
		t.Fatalf("%d sizes have only %d names", len(sizes), len(byName))
	}
	return sizes, byName
}

func TestSizesAreManyAndSorted(t *testing.T) {
	sizes, _ := allSizes(t)
	if len(sizes) < 1000 {
		t.Errorf("%d sizes, want at least 1000", len(sizes))
	}
	if !slices.IsSortedFunc(sizes, func(a, b Size) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("sizes are not sorted by name")
	}
	sizes[0].Name = "overwritten"
	if again, _ := allSizes(t); again[0].Name == "overwritten" {
		t.Error("Sizes hands out its own slice")
	}
}

// TestWellKnownSizes holds a few sizes as anyone may look them up.
func TestWellKnownSizes(t *testing.T) {
	_, byName := allSizes(t)
	type facts struct {
		VCPUs, Available, GPUs int
		GiB                    float64
		Arch, Family           string
		OnDemand               float64
	}
	tests := map[string]facts{
		"Standard_D4s_v5":           {4, 4, 0, 16, "x64", "standardDSv5Family", 0.192},
		"Standard_E4-2s_v5":         {4, 2, 0, 32, "x64", "standardESv5Family", 0.252},
		"Standard_D2ps_v5":          {2, 2, 0, 8, "Arm64", "standardDPSv5Family", 0.077},
		"Standard_NC24ads_A100_v4":  {24, 24, 1, 220, "x64", "StandardNCADSA100v4Family", 3.673},
		"Standard_NC4as_T4_v3":      {4, 4, 1, 28, "x64", "Standard NCASv3_T4 Family", 0.526},
		"Standard_DS11-1_v2":        {2, 1, 0, 14, "x64", "standardDSv2Family", 0.185},
		"Standard_B2s":              {2, 2, 0, 4, "x64", "standardBSFamily", 0.0416},
		"Standard_E104is_v5":        {104, 104, 0, 672, "x64", "standardEISv5Family", 7.207},
		"Standard_M128-32ms":        {128, 32, 0, 3892, "x64", "standardMSFamily", 26.688},
		"Standard_F16s_v2":          {16, 16, 0, 32, "x64", "standardFSv2Family", 0.677},
		"Standard_ND96isr_H100_v5":  {96, 96, 8, 1900, "x64", "standardNDSH100v5Family", 98.32},
		"Standard_NV36ads_A10_v5":   {36, 36, 1, 440, "x64", "StandardNVADSA10v5Family", 3.2},
		"Standard_DC4as_v5":         {4, 4, 0, 16, "x64", "standardDCASv5Family", 0.172},
		"Standard_ND96isr_H200_v5":  {96, 96, 8, 1850, "x64", "standardNDISRH200V5Family", 0},
		"Standard_D2_v2_Promo":      {2, 2, 0, 7, "x64", "standardDv2PromoFamily", 0},
		"Standard_ND96amsr_A100_v4": {96, 96, 8, 1800, "x64", "standard NDAMSv4_A100Family", 32.77},
	}
	for name, want := range tests {
		s, ok := byName[name]
		if !ok {
			t.Errorf("%s is missing", name)
			continue
		}
		price, _ := s.PriceIn("eastus")
		got := facts{s.VCPUs, s.VCPUsAvailable, s.GPUs, s.MemoryGiB, s.Architecture, s.Family, price.OnDemand}
		if got != want {
			t.Errorf("%s is %+v, want %+v", name, got, want)
		}
	}
}

func TestConstrainedSizesAreTheirParents(t *testing.T) {
	sizes, byName := allSizes(t)
	constrained := 0
	for _, s := range sizes {
		if s.Parent == "" {
			continue
		}
		constrained++
		parent, ok := byName[s.Parent]
		if !ok {
			t.Errorf("%s has no parent %s", s.Name, s.Parent)
			continue
		}
		if s.MemoryGiB != parent.MemoryGiB || s.VCPUsAvailable >= s.VCPUs {
			t.Errorf("%s: %g GiB, %d of %d vCPUs; its parent has %g GiB", s.Name, s.MemoryGiB, s.VCPUsAvailable, s.VCPUs, parent.MemoryGiB)
		}
	}
	if constrained < 200 {
		t.Errorf("%d constrained sizes, want at least 200", constrained)
	}
}

// TestNamesAgree holds the catalogue against what the names themselves say.
func TestNamesAgree(t *testing.T) {
	sizes, _ := allSizes(t)
	for _, s := range sizes {
		name, err := vmsize.Parse(s.Name)
		if err != nil {
			t.Error(err)
			continue
		}
		if name.Constrained() && name.ConstrainedVCPUs != s.VCPUsAvailable {
			t.Errorf("%s has %d vCPUs available", s.Name, s.VCPUsAvailable)
		}
		// Grace processors come with the GB GPUs, without the letter.
		if arm := name.HasFeature('p') || strings.HasPrefix(name.GPU().Name, "GB"); arm != (s.Architecture == "Arm64") {
			t.Errorf("%s is %s", s.Name, s.Architecture)
		}
		fpga := name.Subfamily == "P" || name.Family == "P"
		if s.GPUs > 0 && name.GPU().Manufacturer == "" && !fpga {
			t.Errorf("%s has %d GPUs, but its name tells no manufacturer", s.Name, s.GPUs)
		}
	}
}

func TestRegions(t *testing.T) {
	regions, err := Regions()
	if err != nil {
		t.Fatal(err)
	}
	if len(regions) != 10 || regions[0] != "eastus" {
		t.Errorf("regions are %v", regions)
	}
	sizes, byName := allSizes(t)
	for _, s := range sizes {
		for _, region := range regions {
			zones, offered := s.ZonesIn(region)
			price, priced := s.PriceIn(region)
			if len(zones) > 0 && (!offered || region == "westcentralus") {
				t.Errorf("%s in %s: zones %v, offered %v", s.Name, region, zones, offered)
			}
			if price.Spot > price.OnDemand || priced != (price.OnDemand > 0) {
				t.Errorf("%s in %s costs %+v", s.Name, region, price)
			}
		}
	}
	d4 := byName["Standard_D4s_v5"]
	if zones, offered := d4.ZonesIn("eastus"); !offered || !slices.Equal(zones, []string{"1", "2", "3"}) {
		t.Errorf("D4s_v5 in eastus: zones %v, offered %v", zones, offered)
	}
	if zones, offered := d4.ZonesIn("westcentralus"); !offered || len(zones) != 0 {
		t.Errorf("D4s_v5 in westcentralus: zones %v, offered %v; want none, true", zones, offered)
	}
	if zones, offered := d4.ZonesIn("atlantis"); offered || zones != nil {
		t.Errorf("D4s_v5 in a region that is not there: zones %v, offered %v", zones, offered)
	}
	if price, ok := d4.PriceIn("atlantis"); ok {
		t.Errorf("D4s_v5 costs %v in a region that is not there", price)
	}
}

func TestCapabilities(t *testing.T) {
	_, byName := allSizes(t)
	got := map[string]string{}
	for _, c := range byName["Standard_NC24ads_A100_v4"].Capabilities() {
		if _, twice := got[c.Name]; twice {
			t.Errorf("%s is there twice", c.Name)
		}
		got[c.Name] = c.Value
	}
	want := map[string]string{
		"vCPUs": "24", "vCPUsAvailable": "24", "vCPUsPerCore": "1", "MemoryGB": "220", "GPUs": "1",
		"CpuArchitectureType": "x64", "HyperVGenerations": "V2", "OSVhdSizeMB": "1047552",
		"MaxResourceVolumeMB": "65536", "CachedDiskBytes": "274877906944", "NvmeDiskSizeInMiB": "915527", "NvmeSizePerDiskInMiB": "915527",
		"EphemeralOSDiskSupported": "True", "SupportedEphemeralOSDiskPlacements": "ResourceDisk,CacheDisk",
		"MaxDataDiskCount": "8", "PremiumIO": "True", "EncryptionAtHostSupported": "True",
		"AcceleratedNetworkingEnabled": "True", "RdmaEnabled": "False", "MaxNetworkInterfaces": "2",
		"LowPriorityCapable": "True", "CapacityReservationSupported": "True",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("NC24ads_A100_v4 (-want +got):\n%s", diff)
	}
}

func TestCapabilitiesOfFractions(t *testing.T) {
	_, byName := allSizes(t)
	for name, want := range map[string]string{"Standard_B1ls": "0.5", "Standard_A0": "0.75", "Standard_D1": "3.5", "Standard_M208ms_v2": "5700"} {
		caps := byName[name].Capabilities()
		if !slices.Contains(caps, Capability{"MemoryGB", want}) {
			t.Errorf("%s: MemoryGB is not %s in %v", name, want, caps)
		}
	}
}

func TestMeters(t *testing.T) {
	_, byName := allSizes(t)
	got := byName["Standard_D4s_v5"].Meters("eastus")
	want := []Meter{
		{"D4s v5", "Virtual Machines Dsv5 Series", 0.192},
		{"D4s v5 Spot", "Virtual Machines Dsv5 Series", 0.040531},
		{"D4s v5 Low Priority", "Virtual Machines Dsv5 Series", 0.0384},
		{"D4s v5", "Virtual Machines Dsv5 Series Windows", 0.376},
		{"D4s v5 Spot", "Virtual Machines Dsv5 Series Windows", 0.079373},
		{"D4s v5 Low Priority", "Virtual Machines Dsv5 Series Windows", 0.1504},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("D4s_v5 in eastus (-want +got):\n%s", diff)
	}
	if arm := byName["Standard_D2ps_v5"].Meters("eastus"); slices.ContainsFunc(arm, isWindows) || len(arm) == 0 {
		t.Errorf("the Arm size D2ps_v5 has meters %v; want some, none for Windows", arm)
	}
	if b := byName["Standard_B2s"].Meters("eastus"); len(b) != 2 {
		t.Errorf("B2s, which has no spot, has meters %v; want Linux and Windows", b)
	}
	if none := byName["Standard_D4s_v5"].Meters("atlantis"); none != nil {
		t.Errorf("meters in a region that is not there: %v", none)
	}
}

func isWindows(m Meter) bool { return strings.HasSuffix(m.Product, " Windows") }

// BenchmarkLoad is what the first use costs: it should stay far below what a
// person notices.
func BenchmarkLoad(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Load(tables); err != nil {
			b.Fatal(err)
		}
	}
}
