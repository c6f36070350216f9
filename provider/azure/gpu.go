// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"strings"

	"github.com/karve-dev/karve/provider/azure/bootstrap"
	"github.com/karve-dev/karve/provider/azure/internal/sku"
	"github.com/karve-dev/karve/provider/azure/vmsize"
)

// gpuFor returns the GPU settings for the bootstrap of a node: empty if the node class leaves
// driver installation to its users.
func gpuFor(s *sku.SKU, install bool) bootstrap.GPU {
	if !install || !s.HasNVIDIA() {
		return bootstrap.GPU{}
	}
	return bootstrap.GPU{Install: true, Kind: gpuKind(s.GPU)}
}

func gpuKind(gpu vmsize.GPU) bootstrap.GPUKind {
	switch {
	case strings.HasPrefix(gpu.Name, "RTXPRO6000"):
		return bootstrap.GridV20
	case gpu.Name == "A10":
		return bootstrap.Grid
	}
	return bootstrap.CUDA
}

// gridDriver reports whether the GPU is a virtual one that needs the GRID driver.
func gridDriver(gpu vmsize.GPU) bool { return gpuKind(gpu) != bootstrap.CUDA }
