package azure

import (
	"testing"

	"github.com/karve-dev/karve/provider/azure/vmsize"
)

// Rule CATALOG-1.
func TestAMDNeedsNobodyToInstallDrivers(t *testing.T) {
	amd := vmsize.GPU{Name: "MI300X", Manufacturer: vmsize.AMD}
	if (shape{gpuDriver: true}).acceptsGPU(amd) || !(shape{}).acceptsGPU(amd) {
		t.Error("AMD GPUs are for classes without drivers, and only for those")
	}
}
