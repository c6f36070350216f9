package azure

import (
	"strings"

	"github.com/karve-dev/karve/provider/azure/vmsize"
)

// gpuDriver is what the image is told about GPUs.
type gpuDriver struct {
	present bool // there is an NVIDIA GPU
	install bool // and AKS brings the driver
	kind    string
	version string
}

// driverFor picks the driver that AKS images carry for a size. The versions must
// be those baked into the images.
func driverFor(s *sku, install bool) gpuDriver {
	if s.gpus == 0 || s.gpu.Manufacturer != vmsize.NVIDIA {
		return gpuDriver{}
	}
	d := gpuDriver{present: true, install: install, kind: "cuda-lts", version: "580.159.04"}
	switch {
	case strings.HasPrefix(s.gpu.Name, "RTXPRO6000"):
		d.kind, d.version = "grid-v20", "595.58.03"
	case s.gpu.Name == "A10":
		d.kind, d.version = "grid", "570.211.01"
	}
	return d
}

// gridDriver reports whether the GPU is a virtual one with a driver of its own.
func gridDriver(gpu vmsize.GPU) bool {
	return gpu.Name == "A10" || strings.HasPrefix(gpu.Name, "RTXPRO6000")
}
