// SPDX-License-Identifier: Apache-2.0

package azureemulator_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/karve-dev/karve/azureemulator"
)

func TestQuotaIsEnforced(t *testing.T) {
	a := start(t, azureemulator.Options{SystemNodes: -1, Quota: map[string]int{"STANDARDDSV5FAMILY": 8}, RegionalCores: 20, LowPriorityCores: 4, VirtualMachines: 4})
	a.mustCreate("one", a.vmBody("Standard_D8s_v5", "1"))
	for _, c := range []struct {
		what    string
		vm      armcompute.VirtualMachine
		phrases []string
	}{
		{"family", a.vmBody("Standard_D2s_v5", "1"), []string{"exceeding approved standardDSv5Family Cores quota", "Family Cores quota", "Current Limit: 8, Current Usage: 8, Additional Required: 2, (Minimum) New Limit Required: 10"}},
		{"region", a.vmBody("Standard_E16s_v5", "1"), []string{"exceeding approved Total Regional Cores quota", "Current Limit: 20, Current Usage: 8"}},
		{"spot", a.spot("Standard_D8s_v5", "1", "Delete"), []string{"exceeding approved Low Priority Cores quota", "LowPriorityCores"}},
	} {
		_, err := a.create("two", c.vm)
		refusal := wantCode(t, err, http.StatusConflict, "OperationNotAllowed")
		for _, phrase := range c.phrases {
			if !strings.Contains(refusal.Error(), phrase) {
				t.Errorf("%s quota: no %q in %v", c.what, phrase, refusal)
			}
		}
	}
	// Spot cores are counted apart: the family is full and this still fits.
	a.mustCreate("spot", a.spot("Standard_D4s_v5", "1", "Delete"))
	if got := a.used("lowPriorityCores"); got != 4 {
		t.Errorf("%d spot cores in use, want 4", got)
	}
	a.mustRemove("one")
	if err := a.Capacity.SetQuota("standardESv5Family", 0); err != nil {
		t.Fatal(err)
	}
	_, err := a.create("three", a.vmBody("Standard_E2s_v5", "1"))
	wantCode(t, err, http.StatusConflict, "OperationNotAllowed")
	a.mustCreate("three", a.vmBody("Standard_D8s_v5", "1"))
	if nics := len(a.State().NICs); nics != 2 {
		t.Errorf("refused creations left interfaces: %d, want 2", nics)
	}
}

func TestNumberOfVMsIsLimited(t *testing.T) {
	a := start(t, azureemulator.Options{SystemNodes: -1, VirtualMachines: 1})
	a.mustCreate("one", a.vmBody("Standard_D2s_v5", "1"))
	_, err := a.create("two", a.vmBody("Standard_D2s_v5", "1"))
	wantCode(t, err, http.StatusConflict, "OperationNotAllowed")
}

func TestBadRequests(t *testing.T) {
	a := start(t, azureemulator.Options{})
	machine := func(change func(*armcompute.VirtualMachine)) armcompute.VirtualMachine {
		vm := a.vmBody("Standard_D4s_v5", "1")
		change(&vm)
		return vm
	}
	for _, c := range []struct {
		what   string
		vm     armcompute.VirtualMachine
		status int
		code   string
	}{
		{"unknown size", a.vmBody("Standard_D5s_v9", "1"), 400, "InvalidParameter"},
		{"unknown zone", a.vmBody("Standard_D4s_v5", "7"), 400, "InvalidAvailabilityZone"},
		{"other region", machine(func(v *armcompute.VirtualMachine) { v.Location = to.Ptr("mars") }), 400, "LocationNotAvailableForResourceType"},
		{"unknown image", machine(func(v *armcompute.VirtualMachine) {
			v.Properties.StorageProfile.ImageReference.CommunityGalleryImageID = to.Ptr(ubuntuImage + "9")
		}), 404, "GalleryImageNotFound"},
		{"no image", machine(func(v *armcompute.VirtualMachine) { v.Properties.StorageProfile.ImageReference = nil }), 400, "InvalidParameter"},
		{"image of another architecture", a.vmBody("Standard_D4ps_v5", "1"), 400, "BadRequest"},
		{"image of another generation", a.vmBody("Standard_DS2_v2", "1"), 0, ""},
		{"custom data not base64", machine(func(v *armcompute.VirtualMachine) { v.Properties.OSProfile.CustomData = to.Ptr("#!") }), 400, "InvalidParameter"},
		{"custom data too long", machine(func(v *armcompute.VirtualMachine) {
			v.Properties.OSProfile.CustomData = to.Ptr(base64.StdEncoding.EncodeToString(make([]byte, 70000)))
		}), 400, "InvalidParameter"},
		{"eviction policy on a regular VM", machine(func(v *armcompute.VirtualMachine) {
			v.Properties.EvictionPolicy = to.Ptr(armcompute.VirtualMachineEvictionPolicyTypesDelete)
		}), 400, "EvictionPolicyCanBeSetOnlyOnAzureSpotVirtualMachines"},
		{"spot of a size without spot", a.spot("Standard_B2s", "1", "Delete"), 400, "AzureSpotIsNotSupportedForThisVMSize"},
		{"spot price too low", func() armcompute.VirtualMachine {
			vm := a.spot("Standard_D4s_v5", "1", "Delete")
			vm.Properties.BillingProfile.MaxPrice = to.Ptr(0.001)
			return vm
		}(), 409, "SpotPriceGreaterThanProvidedMaxPrice"},
		{"no interface", machine(func(v *armcompute.VirtualMachine) { v.Properties.NetworkProfile = nil }), 400, "InvalidParameter"},
		{"missing interface", separate(a.vmBody("Standard_D4s_v5", "1"), a.SubnetID()+"/x", "Delete"), 400, "InvalidResourceReference"},
		{"inline interface without api version", machine(func(v *armcompute.VirtualMachine) { v.Properties.NetworkProfile.NetworkAPIVersion = nil }), 400, "InvalidParameter"},
		{"unknown subnet", machine(func(v *armcompute.VirtualMachine) {
			v.Properties.NetworkProfile.NetworkInterfaceConfigurations[0].Properties.IPConfigurations[0].Properties.Subnet.ID = to.Ptr(a.SubnetID() + "2")
		}), 400, "InvalidResourceReference"},
		{"unknown backend pool", machine(func(v *armcompute.VirtualMachine) {
			v.Properties.NetworkProfile.NetworkInterfaceConfigurations[0].Properties.IPConfigurations[0].Properties.LoadBalancerBackendAddressPools = []*armcompute.SubResource{{ID: to.Ptr("/gone")}}
		}), 400, "InvalidResourceReference"},
		{"acceleration the size lacks", func() armcompute.VirtualMachine {
			vm := a.vmBody("Standard_A2_v2", "1")
			vm.Properties.StorageProfile.ImageReference.CommunityGalleryImageID = to.Ptr(strings.Replace(ubuntuImage, "gen2", "", 1))
			vm.Properties.NetworkProfile.NetworkInterfaceConfigurations[0].Properties.EnableAcceleratedNetworking = to.Ptr(true)
			return vm
		}(), 400, "VMSizeIsNotPermittedToEnableAcceleratedNetworking"},
		{"ephemeral disk on a size without room", machine(func(v *armcompute.VirtualMachine) { ephemeral(v, "CacheDisk", 64) }), 400, "InvalidParameter"},
		{"ephemeral disk too large", func() armcompute.VirtualMachine {
			vm := a.vmBody("Standard_D4ds_v5", "1")
			ephemeral(&vm, "ResourceDisk", 512)
			return vm
		}(), 400, "InvalidParameter"},
		{"ephemeral disk that fits", func() armcompute.VirtualMachine {
			vm := a.vmBody("Standard_D4ds_v5", "1")
			ephemeral(&vm, "ResourceDisk", 128)
			return vm
		}(), 0, ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			_, err := a.create("vm-"+strings.ReplaceAll(c.what, " ", "-"), c.vm)
			if c.status == 0 {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			wantCode(t, err, c.status, c.code)
		})
	}
	if got := len(a.State().VMs); got != 4 {
		t.Errorf("%d VMs, want 4: two of the system, two that were right", got)
	}
}

func ephemeral(v *armcompute.VirtualMachine, placement armcompute.DiffDiskPlacement, gb int32) {
	d := v.Properties.StorageProfile.OSDisk
	d.DiskSizeGB = to.Ptr(gb)
	d.Caching = to.Ptr(armcompute.CachingTypesReadOnly)
	d.DiffDiskSettings = &armcompute.DiffDiskSettings{Option: to.Ptr(armcompute.DiffDiskOptionsLocal), Placement: to.Ptr(placement)}
}

func TestUnknownGroupAndResources(t *testing.T) {
	a := start(t, azureemulator.Options{})
	_, err := a.vms.Get(t.Context(), "nowhere", "x", nil)
	wantCode(t, err, http.StatusNotFound, "ResourceGroupNotFound")
	_, err = a.vms.Get(t.Context(), a.group, "x", nil)
	wantCode(t, err, http.StatusNotFound, "ResourceNotFound")
	_, err = a.subnets.Get(t.Context(), a.group, "x", "y", nil)
	wantCode(t, err, http.StatusNotFound, "ResourceNotFound")
	_, err = a.exts.BeginCreateOrUpdate(t.Context(), a.group, "x", "y", armcompute.VirtualMachineExtension{Location: to.Ptr("eastus")}, nil)
	wantCode(t, err, http.StatusNotFound, "ParentResourceNotFound")
	if err := a.remove("x"); err != nil {
		t.Errorf("deleting what is not there: %v", err)
	}
}

func TestStockouts(t *testing.T) {
	a := start(t, azureemulator.Options{SystemNodes: -1})
	for _, c := range []struct {
		stockout azureemulator.Stockout
		status   int // of the response that carried the code: 200 is the operation's
		code     string
	}{
		{azureemulator.Stockout{Size: "Standard_D4s_v5", Mode: azureemulator.SkuNotAvailable}, 409, "SkuNotAvailable"},
		{azureemulator.Stockout{Mode: azureemulator.SkuNotAvailableAsync}, 200, "SkuNotAvailable"},
		{azureemulator.Stockout{Size: "Standard_D*", Zone: "1"}, 200, "ZonalAllocationFailed"},
		{azureemulator.Stockout{Mode: azureemulator.AllocationFailed}, 200, "AllocationFailed"},
		{azureemulator.Stockout{Priority: "Regular", Mode: azureemulator.OverconstrainedZonalAllocationRequest}, 200, "OverconstrainedZonalAllocationRequest"},
		{azureemulator.Stockout{Mode: azureemulator.OverconstrainedAllocationRequest}, 200, "OverconstrainedAllocationRequest"},
	} {
		a.Capacity.ClearStockouts("", "", "")
		if err := a.Capacity.AddStockout(c.stockout); err != nil {
			t.Fatal(err)
		}
		_, err := a.create("vm", a.vmBody("Standard_D4s_v5", "1"))
		wantCode(t, err, c.status, c.code)
		if c.status == http.StatusOK {
			vm, err := a.vms.Get(t.Context(), a.group, "vm", nil)
			if err != nil || *vm.Properties.ProvisioningState != "Failed" {
				t.Errorf("%s: the VM is %v, %v; it should remain and be Failed", c.code, vm.Properties, err)
			}
			a.mustRemove("vm")
		}
	}
	for _, other := range []azureemulator.Stockout{{Zone: "2"}, {Priority: "Spot"}, {Size: "Standard_E*"}, {Zone: "regional"}} {
		a.Capacity.ClearStockouts("", "", "")
		if err := a.Capacity.AddStockout(other); err != nil {
			t.Fatal(err)
		}
		a.mustCreate("vm", a.vmBody("Standard_D4s_v5", "1"))
		a.mustRemove("vm")
	}
	if left := len(a.State().NICs); left != 0 {
		t.Errorf("%d interfaces leaked", left)
	}
	if err := a.Capacity.AddStockout(azureemulator.Stockout{Mode: "Sometimes"}); err == nil {
		t.Errorf("an unknown mode was accepted")
	}
}

func TestLimitedStock(t *testing.T) {
	a := start(t, azureemulator.Options{SystemNodes: -1})
	if err := a.Capacity.AddStockout(azureemulator.Stockout{Size: "Standard_D2s_v5", Left: 2}); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		_, err := a.create(fmt.Sprintf("vm-%d", i), a.vmBody("Standard_D2s_v5", "1"))
		if i < 2 && err != nil {
			t.Fatal(err)
		}
		if i == 2 {
			wantCode(t, err, http.StatusOK, "ZonalAllocationFailed")
		}
	}
}

func TestFailedVMCanBeTriedAgainInAnotherSize(t *testing.T) {
	a := start(t, azureemulator.Options{SystemNodes: -1})
	if err := a.Capacity.AddStockout(azureemulator.Stockout{Size: "Standard_D4s_v5"}); err != nil {
		t.Fatal(err)
	}
	_, err := a.create("vm", a.vmBody("Standard_D4s_v5", "1"))
	wantCode(t, err, http.StatusOK, "ZonalAllocationFailed")
	_, err = a.create("vm", a.vmBody("Standard_E8s_v5", "2"))
	wantCode(t, err, http.StatusConflict, "PropertyChangeNotAllowed")
	made := a.mustCreate("vm", a.vmBody("Standard_E8s_v5", "1"))
	if *made.Properties.HardwareProfile.VMSize != "Standard_E8s_v5" {
		t.Errorf("size %s", *made.Properties.HardwareProfile.VMSize)
	}
	if a.used("standardDSv5Family") != 0 || a.used("standardESv5Family") != 8 {
		t.Errorf("quota did not move with the size")
	}
}
