// SPDX-License-Identifier: Apache-2.0

package azureemulator_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v8"

	"github.com/karve-dev/karve/azureemulator"
)

func TestSubnetFillsUp(t *testing.T) {
	// 16 addresses, 5 of them Azure's.
	a := start(t, azureemulator.Options{SystemNodes: -1, SubnetPrefix: "10.1.2.0/28"})
	first, err := a.makeNIC("nic-many", 10)
	if err != nil {
		t.Fatal(err)
	}
	if got := *first.Properties.IPConfigurations[0].Properties.PrivateIPAddress; got != "10.1.2.4" {
		t.Errorf("first address %s, want 10.1.2.4", got)
	}
	a.mustCreate("last", a.vmBody("Standard_D2s_v5", "1"))
	_, err = a.create("one-too-many", a.vmBody("Standard_D2s_v5", "1"))
	refusal := wantCode(t, err, http.StatusBadRequest, "SubnetIsFull")
	if want := "Subnet aks-subnet with address prefix 10.1.2.0/28 does not have enough capacity for 1 IP addresses."; !strings.Contains(refusal.Error(), want) {
		t.Errorf("no %q in %v", want, refusal)
	}
	_, err = a.makeNIC("nic-too-many", 1)
	wantCode(t, err, http.StatusBadRequest, "SubnetIsFull")

	poller, err := a.nics.BeginDelete(t.Context(), a.group, "nic-many", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := poller.PollUntilDone(t.Context(), often()); err != nil {
		t.Fatal(err)
	}
	a.mustCreate("fits-again", a.vmBody("Standard_D2s_v5", "1"))
}

func TestSeparateInterface(t *testing.T) {
	a := start(t, azureemulator.Options{SystemNodes: -1})
	nic, err := a.makeNIC("nic-1", 1)
	if err != nil {
		t.Fatal(err)
	}
	vm := separate(a.vmBody("Standard_D2s_v5", "1"), *nic.ID, armcompute.DeleteOptionsDetach)
	a.mustCreate("vm-1", vm)
	_, err = a.create("vm-2", vm)
	wantCode(t, err, http.StatusBadRequest, "NicInUse")
	_, err = a.nics.BeginDelete(t.Context(), a.group, "nic-1", nil)
	wantCode(t, err, http.StatusBadRequest, "NicInUse")
	a.mustRemove("vm-1")
	kept, err := a.nics.Get(t.Context(), a.group, "nic-1", nil)
	if err != nil || kept.Properties.VirtualMachine != nil {
		t.Fatalf("a detached interface should remain and be free: %+v, %v", kept.Properties, err)
	}

	vm = separate(vm, *nic.ID, armcompute.DeleteOptionsDelete)
	a.mustCreate("vm-2", vm)
	a.mustRemove("vm-2")
	_, err = a.nics.Get(t.Context(), a.group, "nic-1", nil)
	wantCode(t, err, http.StatusNotFound, "ResourceNotFound")
}

func TestInterfaceIsReservedAfterAFailedCreation(t *testing.T) {
	a := start(t, azureemulator.Options{SystemNodes: -1, TimeScale: 0.01})
	nic, err := a.makeNIC("nic-1", 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Capacity.AddStockout(azureemulator.Stockout{Mode: azureemulator.SkuNotAvailable}); err != nil {
		t.Fatal(err)
	}
	vm := separate(a.vmBody("Standard_D2s_v5", "1"), *nic.ID, armcompute.DeleteOptionsDelete)
	_, err = a.create("vm-1", vm)
	wantCode(t, err, http.StatusConflict, "SkuNotAvailable")
	a.Capacity.ClearStockouts("", "", "")

	_, err = a.nics.BeginDelete(t.Context(), a.group, "nic-1", nil)
	wantCode(t, err, http.StatusBadRequest, "NicReservedForAnotherVm")
	_, err = a.create("vm-2", vm)
	wantCode(t, err, http.StatusBadRequest, "NicReservedForAnotherVm")
	a.mustCreate("vm-1", vm)
	a.mustRemove("vm-1")
}

func TestInterfaceUpdates(t *testing.T) {
	a := start(t, azureemulator.Options{})
	made, err := a.makeNIC("nic-1", 2)
	if err != nil {
		t.Fatal(err)
	}
	again, err := a.makeNIC("NIC-1", 2)
	if err != nil {
		t.Fatal(err)
	}
	for i := range made.Properties.IPConfigurations {
		before, after := *made.Properties.IPConfigurations[i].Properties.PrivateIPAddress, *again.Properties.IPConfigurations[i].Properties.PrivateIPAddress
		if before != after {
			t.Errorf("an identical request changed address %s to %s", before, after)
		}
	}
	tagged, err := a.nics.UpdateTags(t.Context(), a.group, "nic-1", armnetwork.TagsObject{Tags: map[string]*string{"a": to.Ptr("b")}}, nil)
	if err != nil || *tagged.Tags["a"] != "b" {
		t.Errorf("tags %v, %v", tagged.Tags, err)
	}
	lb, err := a.lbs.Get(t.Context(), a.group, "kubernetes", nil)
	if err != nil {
		t.Fatal(err)
	}
	body := a.nicBody(1)
	body.Properties.IPConfigurations[0].Properties.LoadBalancerBackendAddressPools = []*armnetwork.BackendAddressPool{{ID: lb.Properties.BackendAddressPools[1].ID}}
	if err := a.Network.SetBackendPools("kubernetes", "aksOutboundBackendPool"); err != nil {
		t.Fatal(err)
	}
	_, err = a.nics.BeginCreateOrUpdate(t.Context(), a.group, "nic-2", body, nil)
	wantCode(t, err, http.StatusBadRequest, "InvalidResourceReference")
}

func TestOwnSubnet(t *testing.T) {
	a := start(t, azureemulator.Options{})
	id, err := a.Network.AddSubnet("network-rg", "corp", "nodes", "192.168.4.0/24")
	if err != nil {
		t.Fatal(err)
	}
	subnet, err := a.subnets.Get(t.Context(), "NETWORK-RG", "corp", "nodes", nil)
	if err != nil || *subnet.ID != id {
		t.Fatalf("subnet %v, %v", subnet.ID, err)
	}
	vm := a.vmBody("Standard_D2s_v5", "1")
	vm.Properties.NetworkProfile.NetworkInterfaceConfigurations[0].Properties.IPConfigurations[0].Properties.Subnet.ID = to.Ptr(strings.ToUpper(id))
	a.mustCreate("vm", vm)
	if m, power, found := a.VMs.Find("VM"); !found || m.PrivateIP != "192.168.4.4" || power == "" {
		t.Errorf("VM %+v, %q, %t", m, power, found)
	}
	for _, bad := range []string{"10.0.0.0/30", "fd00::/64", "ten", "192.168.4.128/25"} {
		if _, err := a.Network.AddSubnet("network-rg", "corp", "more", bad); err == nil {
			t.Errorf("subnet %s was accepted", bad)
		}
	}
	if _, err := a.Network.AddSubnet("network-rg", "corp", "Nodes", "10.0.0.0/24"); err == nil {
		t.Errorf("a second subnet of the same name was accepted")
	}
}

func TestListingsHavePages(t *testing.T) {
	a := start(t, azureemulator.Options{SystemNodes: -1, PageSize: 3})
	for i := range 7 {
		a.mustCreate(fmt.Sprintf("vm-%d", i), a.vmBody("Standard_D2s_v5", "1"))
	}
	pages, seen := 0, []string{}
	for p := a.vms.NewListPager(a.group, nil); p.More(); pages++ {
		page, err := p.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, vm := range page.Value {
			seen = append(seen, *vm.Name)
		}
		if pages == 0 {
			// One that was shown goes away: no other may be skipped for it.
			a.mustRemove("vm-0")
		}
	}
	if pages != 3 || !slices.Equal(seen, []string{"vm-0", "vm-1", "vm-2", "vm-3", "vm-4", "vm-5", "vm-6"}) {
		t.Errorf("%d pages with %v", pages, seen)
	}
	all := collect(t, a.vms.NewListAllPager(nil), func(p armcompute.VirtualMachinesClientListAllResponse) []*armcompute.VirtualMachine { return p.Value })
	disks := collect(t, a.disks.NewListPager(nil), func(p armcompute.DisksClientListResponse) []*armcompute.Disk { return p.Value })
	if len(all) != 6 || len(disks) != 6 {
		t.Errorf("%d VMs, %d disks, want 6 of each", len(all), len(disks))
	}
}
