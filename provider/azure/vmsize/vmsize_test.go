// SPDX-License-Identifier: Apache-2.0

package vmsize

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	tests := []Size{
		{Name: "Standard_D4s_v5", Tier: "Standard", Family: "D", VCPUs: 4, Features: "s", Version: "5", Series: "Ds_v5"},
		{Name: "D4s_v5", Family: "D", VCPUs: 4, Features: "s", Version: "5", Series: "Ds_v5"},
		{Name: "Standard_D2as_v10", Tier: "Standard", Family: "D", VCPUs: 2, Features: "as", Version: "10", Series: "Das_v10"},
		{Name: "Standard_B2ms", Tier: "Standard", Family: "B", VCPUs: 2, Features: "ms", Version: "1", Series: "Bms"},
		{Name: "Standard_E4-2ads_v5", Tier: "Standard", Family: "E", VCPUs: 4, ConstrainedVCPUs: 2, Features: "ads", Version: "5", Series: "Eads_v5"},
		{Name: "Standard_DS11-1_v2", Tier: "Standard", Family: "D", Subfamily: "S", VCPUs: 11, ConstrainedVCPUs: 1, Version: "2", Series: "DS_v2"},
		{Name: "Standard_GS4-8", Tier: "Standard", Family: "G", Subfamily: "S", VCPUs: 4, ConstrainedVCPUs: 8, Version: "1", Series: "GS"},
		{Name: "Standard_DS11_v2_Promo", Tier: "Standard", Family: "D", Subfamily: "S", VCPUs: 11, Version: "2", Series: "DS_v2", Promo: true},
		{Name: "Standard_NC24ads_A100_v4", Tier: "Standard", Family: "N", Subfamily: "C", VCPUs: 24, Features: "ads", Accelerator: "A100", Version: "4", Series: "NCads_v4"},
		{Name: "Standard_NCC40ads_H100_v5", Tier: "Standard", Family: "N", Subfamily: "CC", VCPUs: 40, Features: "ads", Accelerator: "H100", Version: "5", Series: "NCCads_v5"},
		{Name: "Standard_ND128isr_NDR_GB200_v6", Tier: "Standard", Family: "N", Subfamily: "D", VCPUs: 128, Features: "isr", Accelerator: "GB200", Version: "6", Series: "NDisr_v6"},
		{Name: "Standard_NC36lds_xl_RTXPRO6000BSE_v6", Tier: "Standard", Family: "N", Subfamily: "C", VCPUs: 36, Features: "lds", Accelerator: "RTXPRO6000BSE", Version: "6", Series: "NClds_v6"},
		{Name: "Standard_M416ms_8_v2", Tier: "Standard", Family: "M", VCPUs: 416, Features: "ms", Variant: "8", Version: "2", Series: "Mms_v2"},
		{Name: "Standard_DC4ads_cc_v5", Tier: "Standard", Family: "D", Subfamily: "C", VCPUs: 4, Features: "ads", ConfidentialChild: true, Version: "5", Series: "DCads_v5"},
		{Name: "Standard_NG8ads_V620_v1", Tier: "Standard", Family: "N", Subfamily: "G", VCPUs: 8, Features: "ads", Accelerator: "V620", Version: "1", Series: "NGads_v1"},
		{Name: "Basic_A1", Tier: "Basic", Family: "A", VCPUs: 1, Version: "1", Series: "A"},
	}
	for _, want := range tests {
		got, err := Parse(want.Name)
		if err != nil {
			t.Errorf("Parse(%q): %v", want.Name, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Parse(%q) (-want +got):\n%s", want.Name, diff)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	tests := map[string]string{
		"":                         "capital letters",
		"Standard":                 "nothing follows the tier",
		"Standard_":                "capital letters",
		"standard_d4s_v5":          "capital letters",
		"Standard_Ds_v5":           "vCPU count",
		"Standard_D4-s_v5":         "constrained vCPU count",
		"Standard_D4-0s_v5":        "constrained to no vCPUs",
		"Standard_D4sX_v5":         `"X"`,
		"Standard_D4s_v5_v6":       "follows the version",
		"Standard_D4s_v05":         `"v05"`,
		"Standard_D4s_turbo_v5":    `"turbo"`,
		"Standard_D4s__v5":         `""`,
		"Standard_D2_v2_Promo_v3":  "follows Promo",
		"Standard_NC4as_T4_A10_v3": `"A10"`,
		"Standard_M416ms_8_9_v2":   `"9"`,
		"Standard_D99999s_v5":      "more vCPUs than any VM",
		"Standard_D４s_v5":          "vCPU count",
		"Standard_D4s_v":           `"v"`,
	}
	for name, want := range tests {
		got, err := Parse(name)
		if err == nil {
			t.Errorf("Parse(%q) = %+v, want an error about %s", name, got, want)
			continue
		}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q): %q does not mention %s", name, err, want)
		}
	}
}

func TestGPU(t *testing.T) {
	tests := map[string]GPU{
		"Standard_NC24ads_A100_v4":            {"A100", NVIDIA},
		"Standard_NC4as_T4_v3":                {"T4", NVIDIA},
		"Standard_NC6s_v3":                    {"V100", NVIDIA},
		"Standard_NC24rs_v3":                  {"V100", NVIDIA},
		"Standard_ND40rs_v2":                  {"V100", NVIDIA},
		"Standard_ND96asr_v4":                 {"A100", NVIDIA},
		"Standard_ND128isr_NDR_GB200_v6":      {"GB200", NVIDIA},
		"Standard_NC72ds_xl_RTXPRO6000BSE_v6": {"RTXPRO6000BSE", NVIDIA},
		"Standard_NV12s_v3":                   {"M60", NVIDIA},
		"Standard_NV4as_v4":                   {"MI25", AMD},
		"Standard_NV4ads_V710_v5":             {"V710", AMD},
		"Standard_NG8ads_V620_v1":             {"V620", AMD},
		"Standard_ND96isr_MI300X_v5":          {"MI300X", AMD},
		"Standard_NP10s":                      {},
		"Standard_D4s_v5":                     {},
	}
	for name, want := range tests {
		s, err := Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.GPU(); got != want {
			t.Errorf("%s: GPU() = %v, want %v", name, got, want)
		}
	}
}

func TestConstrainedSizeAndFeatures(t *testing.T) {
	s, err := Parse("Standard_E4-2pds_v6")
	if err != nil {
		t.Fatal(err)
	}
	if !s.Constrained() || !s.HasFeature('p') || s.HasFeature('a') {
		t.Errorf("%s: constrained %v, p %v, a %v; want true, true, false", s.Name, s.Constrained(), s.HasFeature('p'), s.HasFeature('a'))
	}
}

// FuzzParse holds two laws: no name makes Parse panic, and what it accepts can be
// put together again from the parts.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"Standard_D4s_v5", "Standard_E4-2ads_v5", "Standard_NC36lds_xl_RTXPRO6000BSE_v6",
		"Standard_M416ms_8_v2", "Standard_D2_v2_Promo", "Standard_", "_", "Standard_D4-_v", "Basic_A1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		s, err := Parse(name)
		if err != nil {
			if s != (Size{}) {
				t.Errorf("Parse(%q) gave both %+v and %v", name, s, err)
			}
			return
		}
		if !strings.Contains(name, s.Family+s.Subfamily) || !strings.Contains(name, s.Features) {
			t.Errorf("Parse(%q) invented family %q or features %q", name, s.Family+s.Subfamily, s.Features)
		}
		if s.Version == "" || s.Series == "" {
			t.Errorf("Parse(%q) = %+v: incomplete", name, s)
		}
	})
}
