package azure

import (
	"strings"

	"github.com/karve-dev/karve/provider/azure/bootstrap"
	"github.com/karve-dev/karve/provider/azure/vmsize"
)

// hasNVIDIA reports whether the size has GPUs that AKS brings drivers for.
func hasNVIDIA(s *sku) bool { return s.gpus > 0 && s.gpu.Manufacturer == vmsize.NVIDIA }

// gpuFor is what the image of a machine is told about GPUs: nothing where it is to leave them
// to a driver that the class's users bring.
func gpuFor(s *sku, install bool) bootstrap.GPU {
	if !install || !hasNVIDIA(s) {
		return bootstrap.GPU{}
	}
	return bootstrap.GPU{Install: true, Kind: gpuKind(s.gpu)}
}

func gpuKind(gpu vmsize.GPU) bootstrap.GPUKind {
	switch {
	case strings.HasPrefix(gpu.Name, "RTXPRO6000"):
		return bootstrap.GridV20
	case gpu.Name == "A10":
		return bootstrap.Grid
	}
	return bootstrap.Compute
}

// gridDriver reports whether the GPU is a virtual one with a driver of its own.
func gridDriver(gpu vmsize.GPU) bool { return gpuKind(gpu) != bootstrap.Compute }
