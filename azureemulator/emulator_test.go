// SPDX-License-Identifier: Apache-2.0

package azureemulator_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v8"

	"github.com/karve-dev/karve/azureemulator"
)

// guest records what it was started with and why it ended.
type guest struct {
	booted chan azureemulator.VM
	ended  chan error
}

func newGuest() guest {
	return guest{make(chan azureemulator.VM, 1000), make(chan error, 1000)}
}

func (g guest) Run(ctx context.Context, m azureemulator.VM) {
	g.booted <- m
	<-ctx.Done()
	g.ended <- context.Cause(ctx)
}

func TestLifeOfAVM(t *testing.T) {
	g := newGuest()
	a := start(t, azureemulator.Options{Guest: g, TimeScale: 0.001})
	before := a.used("cores")

	made := a.mustCreate("aks-web-1", a.vmBody("Standard_D4s_v5", "2"))
	p := made.Properties
	if *p.ProvisioningState != "Succeeded" || *p.VMID == "" || p.TimeCreated.IsZero() || *made.Zones[0] != "2" {
		t.Errorf("created VM lacks what Azure adds: %+v", made)
	}
	if p.OSProfile.CustomData != nil {
		t.Errorf("customData was echoed")
	}
	if *p.OSProfile.AdminUsername != "azureuser" || *made.Tags["karpenter.sh_nodepool"] != "general" {
		t.Errorf("what was asked was not kept: %+v", p.OSProfile)
	}

	m := <-g.booted
	if string(m.CustomData) != "#!/bin/bash\necho hello\n" || m.ComputerName != "aks-web-1" || m.Size.VCPUs != 4 || m.Zone != "2" || m.Priority != "Regular" {
		t.Errorf("guest saw %+v", m)
	}
	nicName := name(*p.NetworkProfile.NetworkInterfaces[0].ID)
	nic, err := a.nics.Get(t.Context(), a.group, nicName, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := *nic.Properties.IPConfigurations[0].Properties.PrivateIPAddress; got != m.PrivateIP || !strings.HasPrefix(got, "10.224.0.") {
		t.Errorf("interface has address %s, guest %s", got, m.PrivateIP)
	}
	if *nic.Properties.VirtualMachine.ID != *made.ID {
		t.Errorf("interface bound to %s", *nic.Properties.VirtualMachine.ID)
	}
	if got := a.used("cores") - before; got != 4 {
		t.Errorf("4 cores more in use expected, got %d", got)
	}
	if got := a.used("standardDSv5Family"); got != 12 {
		t.Errorf("family usage %d, want 12: two system nodes and ours", got)
	}
	view, err := a.vms.InstanceView(t.Context(), a.group, "AKS-WEB-1", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := *view.Statuses[len(view.Statuses)-1].Code; got != "PowerState/running" {
		t.Errorf("power state %s", got)
	}

	a.mustRemove("aks-web-1")
	if err := <-g.ended; !errors.Is(err, azureemulator.ErrDeleted) {
		t.Errorf("guest ended by %v, want ErrDeleted", err)
	}
	_, err = a.vms.Get(t.Context(), a.group, "aks-web-1", nil)
	wantCode(t, err, http.StatusNotFound, "ResourceNotFound")
	_, err = a.nics.Get(t.Context(), a.group, nicName, nil)
	wantCode(t, err, http.StatusNotFound, "ResourceNotFound")
	if got := a.used("cores"); got != before {
		t.Errorf("%d cores in use after deletion, want %d", got, before)
	}
	if got := len(a.State().Disks); got != 2 {
		t.Errorf("%d disks left, want the system nodes' 2", got)
	}
}

func TestClusterIsThereFromTheStart(t *testing.T) {
	a := start(t, azureemulator.Options{ClusterName: "demo"})
	if a.group != "MC_demo_demo_eastus" {
		t.Errorf("node resource group %s", a.group)
	}
	nsgs := collect(t, a.nsgs.NewListPager(a.group, nil), func(p armnetwork.SecurityGroupsClientListResponse) []*armnetwork.SecurityGroup { return p.Value })
	if len(nsgs) != 1 || !strings.HasPrefix(*nsgs[0].Name, "aks-agentpool-") || !strings.HasSuffix(*nsgs[0].Name, "-nsg") {
		t.Errorf("security groups %v", nsgs)
	}
	lbs := collect(t, a.lbs.NewListPager(a.group, nil), func(p armnetwork.LoadBalancersClientListResponse) []*armnetwork.LoadBalancer { return p.Value })
	if len(lbs) != 1 || *lbs[0].Name != "kubernetes" || len(lbs[0].Properties.BackendAddressPools) != 2 {
		t.Errorf("load balancers %v", lbs)
	}
	vms := collect(t, a.vms.NewListPager(a.group, nil), func(p armcompute.VirtualMachinesClientListResponse) []*armcompute.VirtualMachine { return p.Value })
	if len(vms) != 2 || *vms[0].Properties.ProvisioningState != "Succeeded" {
		t.Errorf("system pool %v", vms)
	}
	network := "aks-vnet-" + strings.Split(*nsgs[0].Name, "-")[2]
	subnet, err := a.subnets.Get(t.Context(), a.group, network, "aks-subnet", nil)
	if err != nil {
		t.Fatal(err)
	}
	if *subnet.Properties.AddressPrefix != "10.224.0.0/16" || len(subnet.Properties.IPConfigurations) != 2 || *subnet.ID != a.SubnetID() {
		t.Errorf("subnet %+v", subnet.Properties)
	}
	vnet, err := a.vnets.Get(t.Context(), a.group, network, nil)
	if err != nil {
		t.Fatal(err)
	}
	if *vnet.Properties.ResourceGUID == "" {
		t.Errorf("virtual network without resourceGuid")
	}
}

func TestSKUs(t *testing.T) {
	a := start(t, azureemulator.Options{Restrictions: []azureemulator.Restriction{{Size: "Standard_D8s_v5"}, {Size: "Standard_E8s_v5", Zones: []string{"3"}}}})
	filter := "location eq 'eastus'"
	skus := collect(t, a.skus.NewListPager(&armcompute.ResourceSKUsClientListOptions{Filter: &filter}), func(p armcompute.ResourceSKUsClientListResponse) []*armcompute.ResourceSKU { return p.Value })
	if len(skus) < 1000 {
		t.Errorf("only %d sizes", len(skus))
	}
	byName := map[string]*armcompute.ResourceSKU{}
	for _, sku := range skus {
		byName[*sku.Name] = sku
	}
	d4 := byName["Standard_D4s_v5"]
	if *d4.Family != "standardDSv5Family" || *d4.Size != "D4s_v5" || len(d4.LocationInfo[0].Zones) != 3 || len(d4.Restrictions) != 0 {
		t.Errorf("Standard_D4s_v5: %+v", d4)
	}
	if r := byName["Standard_D8s_v5"].Restrictions; len(r) != 2 || *r[0].Type != armcompute.ResourceSKURestrictionsTypeLocation {
		t.Errorf("restrictions of a closed size: %+v", r)
	}
	if r := byName["Standard_E8s_v5"].Restrictions; len(r) != 1 || *r[0].RestrictionInfo.Zones[0] != "3" {
		t.Errorf("restrictions of a size closed in a zone: %+v", r)
	}
	_, err := a.create("restricted", a.vmBody("Standard_D8s_v5", "1"))
	wantCode(t, err, http.StatusConflict, "SkuNotAvailable")
	_, err = a.create("restricted", a.vmBody("Standard_E8s_v5", "3"))
	wantCode(t, err, http.StatusConflict, "SkuNotAvailable")
	a.mustCreate("unrestricted", a.vmBody("Standard_E8s_v5", "1"))
}

func TestImages(t *testing.T) {
	a := start(t, azureemulator.Options{})
	if err := a.PublishImage("2204*", "202512.07.0"); err != nil {
		t.Fatal(err)
	}
	versions := collect(t, a.images.NewListPager("eastus", "AKSUbuntu-38d80f77-467a-481f-a8d4-09b6d4220bd2", "2204gen2containerd", nil),
		func(p armcompute.CommunityGalleryImageVersionsClientListResponse) []*armcompute.CommunityGalleryImageVersion {
			return p.Value
		})
	if len(versions) != 5 {
		t.Fatalf("%d versions, want 5", len(versions))
	}
	for i := 1; i < len(versions); i++ {
		if !versions[i].Properties.PublishedDate.After(*versions[i-1].Properties.PublishedDate) {
			t.Errorf("version %s was not published after the one before", *versions[i].Name)
		}
	}
	_, err := a.images.NewListPager("eastus", "AKSUbuntu-38d80f77-467a-481f-a8d4-09b6d4220bd2", "1804gen2", nil).NextPage(t.Context())
	wantCode(t, err, http.StatusNotFound, "ResourceNotFound")
}

// pager is the part of the SDK's runtime.Pager that collect needs.
type pager[P any] interface {
	More() bool
	NextPage(context.Context) (P, error)
}

func collect[P, T any](t *testing.T, p pager[P], values func(P) []T) []T {
	t.Helper()
	var all []T
	for p.More() {
		page, err := p.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, values(page)...)
	}
	return all
}

func name(id string) string { return id[strings.LastIndex(id, "/")+1:] }

func TestCloseEndsGuests(t *testing.T) {
	g := newGuest()
	a := start(t, azureemulator.Options{SystemNodes: -1, Guest: g})
	a.mustCreate("vm", a.vmBody("Standard_D2s_v5", "1"))
	<-g.booted
	dir := strings.TrimSuffix(tokenFile(a), "/token")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-g.ended; !errors.Is(err, azureemulator.ErrClosed) {
		t.Errorf("guest ended by %v, want ErrClosed", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("closing left %s behind: %v", dir, err)
	}
}

func tokenFile(a *azure) string {
	for _, entry := range a.Environ() {
		if file, found := strings.CutPrefix(entry, "AZURE_FEDERATED_TOKEN_FILE="); found {
			return file
		}
	}
	return ""
}
