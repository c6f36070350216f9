// SPDX-License-Identifier: Apache-2.0

package vmsize

import "strings"

// Manufacturer is the manufacturer of a GPU, in the spelling of the sku-gpu-manufacturer label.
// It is empty for a size without a known GPU.
type Manufacturer string

const (
	NVIDIA Manufacturer = "nvidia"
	AMD    Manufacturer = "amd"
)

// GPU is the accelerator model of an N size and its manufacturer. The zero GPU means none.
type GPU struct {
	Name         string // A100, MI300X: the sku-gpu-name label
	Manufacturer Manufacturer
}

// GPU returns the GPU of a size, by the accelerator in its name or, for the older series whose
// names leave it out, by the series pages of Azure's documentation. Sizes outside the N family
// have none, and neither have the FPGA sizes (NP). An N size of an unknown series has no GPU.
func (s Size) GPU() GPU {
	if s.Family != "N" {
		return GPU{}
	}
	name := s.Accelerator
	if name == "" {
		name = unnamedGPU(s.Series)
	}
	return GPU{Name: name, Manufacturer: maker(name)}
}

// unnamedGPU returns the model for series whose names do not contain it.
func unnamedGPU(series string) string {
	switch series {
	case "NC", "NCr":
		return "K80"
	case "NCs_v2", "NCrs_v2":
		return "P100"
	case "NCs_v3", "NCrs_v3", "NDs_v2", "NDrs_v2":
		return "V100"
	case "NDs", "NDrs":
		return "P40"
	case "NDasr_v4":
		return "A100"
	case "NV", "NVs_v2", "NVs_v3":
		return "M60"
	case "NVas_v4":
		return "MI25"
	}
	return ""
}

// maker returns the manufacturer by the model: AMD's models are MI, or V and three digits
// starting with 6 or 7 (V620, V710), while NVIDIA's V100 starts with 1. Unknown models count as
// NVIDIA's, which makes all the others in Azure.
func maker(model string) Manufacturer {
	switch {
	case model == "":
		return ""
	case strings.HasPrefix(model, "MI"), strings.HasPrefix(model, "V6"), strings.HasPrefix(model, "V7"):
		return AMD
	}
	return NVIDIA
}
