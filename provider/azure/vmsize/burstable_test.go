// SPDX-License-Identifier: Apache-2.0

package vmsize_test

import (
	"testing"

	"github.com/karve-dev/karve/provider/azure/vmsize"
)

// TestSustainedShareOfBurstableSizes compares with Microsoft's tables of the series.
func TestSustainedShareOfBurstableSizes(t *testing.T) {
	for name, want := range map[string]int64{
		"Standard_B1ls": 50, "Standard_B1s": 100, "Standard_B1ms": 200, "Standard_B2s": 200, "Standard_B2ms": 300, "Standard_B4ms": 225,
		"Standard_B8ms": 170, "Standard_B12ms": 170, "Standard_B16ms": 170, "Standard_B20ms": 170,
		"Standard_B2ts_v2": 200, "Standard_B2ls_v2": 300, "Standard_B2s_v2": 400, "Standard_B4ls_v2": 300, "Standard_B4s_v2": 400,
		"Standard_B32ls_v2": 300, "Standard_B32s_v2": 400,
		"Standard_B2ats_v2": 200, "Standard_B2als_v2": 300, "Standard_B2as_v2": 400, "Standard_B16als_v2": 300, "Standard_B16as_v2": 400,
		"Standard_B2pts_v2": 200, "Standard_B2pls_v2": 300, "Standard_B2ps_v2": 400, "Standard_B8pls_v2": 300, "Standard_B16ps_v2": 400,
		"B4s_v2":                400,
		"Standard_B64s_v3":      170, // not in the tables yet
		"Standard_B6ms":         170,
		"Standard_D4s_v5":       1000,
		"Standard_DC8ads_cc_v5": 1000,
	} {
		size, err := vmsize.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := size.SustainedPermille(); got != want {
			t.Errorf("%s has %d thousandths of its vCPUs all the time, want %d", name, got, want)
		}
	}
}
