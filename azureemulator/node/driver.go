// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"strings"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/azureemulator/catalog"
	"github.com/karve-dev/karve/provider/azure/vmsize"
)

// tagNoDriver on a VM has the scripts of its image leave the GPU alone.
const tagNoDriver = "SkipGpuDriverInstall"

// installDriver does on m what the scripts of its image do about the GPU driver. The error says
// why they exit, which they do before the kubelet starts.
func (p *Payload) installDriver(m azureemulator.VM) error {
	if skipsDriver(m.Tags) {
		p.GPUDriver = false
	}
	os, _ := distribution(m.ImageID)
	switch {
	case !p.GPUDriver:
		return nil
	case !hasNVIDIA(m.Size):
		return fmt.Errorf("GPU_NODE is true, and the driver finds no GPU of NVIDIA's on %s", m.Size.Name)
	case strings.HasPrefix(gpuName(m.Size), "RTXPRO6000") && !strings.HasPrefix(os, "Ubuntu"):
		return fmt.Errorf("GPU_NODE is true, and %s has no GPU driver grid-v20, which %s needs", os, m.Size.Name)
	}
	return nil
}

// skipsDriver ignores case in the tag's name and value.
func skipsDriver(tags map[string]string) bool {
	for name, value := range tags {
		if strings.EqualFold(name, tagNoDriver) {
			return strings.EqualFold(value, "true")
		}
	}
	return false
}

// hasNVIDIA reports whether NVIDIA's driver finds a GPU on the size.
func hasNVIDIA(size catalog.Size) bool {
	name, err := vmsize.Parse(size.Name)
	return err == nil && size.GPUs > 0 && name.GPU().Manufacturer == vmsize.NVIDIA
}

func gpuName(size catalog.Size) string {
	name, err := vmsize.Parse(size.Name)
	if err != nil {
		return ""
	}
	return name.GPU().Name
}
