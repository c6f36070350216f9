// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"strings"
	"testing"

	"github.com/karve-dev/karve/provider/azure/internal/quota"
	"github.com/karve-dev/karve/provider/azure/pricelist"
	"github.com/karve-dev/karve/provider/azure/vmsize"
)

// Rule CATALOG-1.
func TestAMDNeedsNobodyToInstallDrivers(t *testing.T) {
	amd := vmsize.GPU{Name: "MI300X", Manufacturer: vmsize.AMD}
	if (classSettings{gpuDriver: true}).acceptsGPU(amd) || !(classSettings{}).acceptsGPU(amd) {
		t.Error("AMD GPUs are for classes without drivers, and only for those")
	}
}

// Rule QUOTA-3.
func TestCatalogNamesFamiliesWithoutQuota(t *testing.T) {
	names := []string{quota.Regional, quota.OfFamily("standardDSv5Family"), quota.OfFamily("standardNew"), quota.OfFamily("standardB"), quota.Spot}
	read := quota.Usages{"cores": {Limit: 100}, "standarddsv5family": {Limit: 10}}
	p := regionData{quota: quota.Reading{Value: read}}.problem(&typeSet{quotas: names}, pricelist.List{}, "")
	if !strings.Contains(p, "does not list standardB, standardNew") {
		t.Errorf("the catalog's problem is %q", p)
	}
}
