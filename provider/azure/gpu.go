package azure

import (
	"strings"

	"github.com/karve-dev/karve/provider/azure/bootstrap"
	"github.com/karve-dev/karve/provider/azure/vmsize"
)

// gpuFor is what the image of a machine is told about GPUs: AKS brings drivers for
// NVIDIA's only.
func gpuFor(s *sku, install bool) bootstrap.GPU {
	if s.gpus == 0 || s.gpu.Manufacturer != vmsize.NVIDIA {
		return bootstrap.GPU{}
	}
	return bootstrap.GPU{Present: true, Install: install, Kind: gpuKind(s.gpu)}
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
