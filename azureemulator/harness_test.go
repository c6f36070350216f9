// SPDX-License-Identifier: Apache-2.0

package azureemulator_test

import (
	"context"
	"encoding/base64"
	"errors"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v8"

	"github.com/karve-dev/karve/azureemulator"
)

const ubuntuImage = "/CommunityGalleries/AKSUbuntu-38d80f77-467a-481f-a8d4-09b6d4220bd2/images/2204gen2containerd/versions/202511.02.0"

// azure is an emulator and the SDK's clients for it.
type azure struct {
	*azureemulator.Server
	t       *testing.T
	group   string
	vms     *armcompute.VirtualMachinesClient
	disks   *armcompute.DisksClient
	exts    *armcompute.VirtualMachineExtensionsClient
	usages  *armcompute.UsageClient
	skus    *armcompute.ResourceSKUsClient
	images  *armcompute.CommunityGalleryImageVersionsClient
	nics    *armnetwork.InterfacesClient
	subnets *armnetwork.SubnetsClient
	vnets   *armnetwork.VirtualNetworksClient
	nsgs    *armnetwork.SecurityGroupsClient
	lbs     *armnetwork.LoadBalancersClient
}

// start brings an emulator up, and checks its books when the test is over.
func start(t *testing.T, o azureemulator.Options) *azure {
	t.Helper()
	s, err := azureemulator.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.CheckInvariants(); err != nil {
			t.Errorf("invariants at the end: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	credential, err := s.Credential()
	if err != nil {
		t.Fatal(err)
	}
	compute, err := armcompute.NewClientFactory(s.SubscriptionID(), credential, s.ClientOptions())
	if err != nil {
		t.Fatal(err)
	}
	network, err := armnetwork.NewClientFactory(s.SubscriptionID(), credential, s.ClientOptions())
	if err != nil {
		t.Fatal(err)
	}
	return &azure{
		Server: s, t: t, group: s.NodeResourceGroup(),
		vms: compute.NewVirtualMachinesClient(), disks: compute.NewDisksClient(), exts: compute.NewVirtualMachineExtensionsClient(),
		usages: compute.NewUsageClient(), skus: compute.NewResourceSKUsClient(), images: compute.NewCommunityGalleryImageVersionsClient(),
		nics: network.NewInterfacesClient(), subnets: network.NewSubnetsClient(), vnets: network.NewVirtualNetworksClient(),
		nsgs: network.NewSecurityGroupsClient(), lbs: network.NewLoadBalancersClient(),
	}
}

// vmBody is a VM as karve would ask for it: inline interface, everything
// deleted with it.
func (a *azure) vmBody(size, zone string) armcompute.VirtualMachine {
	vm := armcompute.VirtualMachine{
		Location: to.Ptr(a.Location()),
		Tags:     map[string]*string{"karpenter.sh_nodepool": to.Ptr("general")},
		Properties: &armcompute.VirtualMachineProperties{
			HardwareProfile: &armcompute.HardwareProfile{VMSize: to.Ptr(armcompute.VirtualMachineSizeTypes(size))},
			StorageProfile: &armcompute.StorageProfile{
				ImageReference: &armcompute.ImageReference{CommunityGalleryImageID: to.Ptr(ubuntuImage)},
				OSDisk: &armcompute.OSDisk{
					CreateOption: to.Ptr(armcompute.DiskCreateOptionTypesFromImage),
					DeleteOption: to.Ptr(armcompute.DiskDeleteOptionTypesDelete),
					DiskSizeGB:   to.Ptr[int32](128),
				},
			},
			OSProfile: &armcompute.OSProfile{
				AdminUsername: to.Ptr("azureuser"),
				CustomData:    to.Ptr(base64.StdEncoding.EncodeToString([]byte("#!/bin/bash\necho hello\n"))),
			},
			NetworkProfile: a.inline("nic"),
		},
	}
	if zone != "" {
		vm.Zones = []*string{to.Ptr(zone)}
	}
	return vm
}

func (a *azure) inline(name string) *armcompute.NetworkProfile {
	return &armcompute.NetworkProfile{
		NetworkAPIVersion: to.Ptr(armcompute.NetworkAPIVersionTwoThousandTwentyTwo1101),
		NetworkInterfaceConfigurations: []*armcompute.VirtualMachineNetworkInterfaceConfiguration{{
			Name: to.Ptr(name),
			Properties: &armcompute.VirtualMachineNetworkInterfaceConfigurationProperties{
				Primary:      to.Ptr(true),
				DeleteOption: to.Ptr(armcompute.DeleteOptionsDelete),
				IPConfigurations: []*armcompute.VirtualMachineNetworkInterfaceIPConfiguration{{
					Name: to.Ptr("ipconfig1"),
					Properties: &armcompute.VirtualMachineNetworkInterfaceIPConfigurationProperties{
						Subnet: &armcompute.SubResource{ID: to.Ptr(a.SubnetID())},
					},
				}},
			},
		}},
	}
}

func (a *azure) spot(size, zone string, policy armcompute.VirtualMachineEvictionPolicyTypes) armcompute.VirtualMachine {
	vm := a.vmBody(size, zone)
	vm.Properties.Priority = to.Ptr(armcompute.VirtualMachinePriorityTypesSpot)
	vm.Properties.EvictionPolicy = to.Ptr(policy)
	vm.Properties.BillingProfile = &armcompute.BillingProfile{MaxPrice: to.Ptr(-1.0)}
	return vm
}

// nicBody is a network interface of its own.
func (a *azure) nicBody(addresses int) armnetwork.Interface {
	nic := armnetwork.Interface{Location: to.Ptr(a.Location()), Properties: &armnetwork.InterfacePropertiesFormat{}}
	for i := range addresses {
		nic.Properties.IPConfigurations = append(nic.Properties.IPConfigurations, &armnetwork.InterfaceIPConfiguration{
			Name: to.Ptr("ipconfig" + string(rune('0'+i))),
			Properties: &armnetwork.InterfaceIPConfigurationPropertiesFormat{
				Primary: to.Ptr(i == 0),
				Subnet:  &armnetwork.Subnet{ID: to.Ptr(a.SubnetID())},
			},
		})
	}
	return nic
}

func (a *azure) makeNIC(name string, addresses int) (*armnetwork.Interface, error) {
	poller, err := a.nics.BeginCreateOrUpdate(a.t.Context(), a.group, name, a.nicBody(addresses), nil)
	if err != nil {
		return nil, err
	}
	made, err := poller.PollUntilDone(a.t.Context(), often())
	return &made.Interface, err
}

// separate makes the VM use an interface that exists.
func separate(vm armcompute.VirtualMachine, nic string, option armcompute.DeleteOptions) armcompute.VirtualMachine {
	vm.Properties.NetworkProfile = &armcompute.NetworkProfile{NetworkInterfaces: []*armcompute.NetworkInterfaceReference{{
		ID:         to.Ptr(nic),
		Properties: &armcompute.NetworkInterfaceReferenceProperties{Primary: to.Ptr(true), DeleteOption: to.Ptr(option)},
	}}}
	return vm
}

func (a *azure) create(name string, vm armcompute.VirtualMachine) (*armcompute.VirtualMachine, error) {
	return a.createWith(a.t.Context(), name, vm)
}

func (a *azure) createWith(ctx context.Context, name string, vm armcompute.VirtualMachine) (*armcompute.VirtualMachine, error) {
	poller, err := a.vms.BeginCreateOrUpdate(ctx, a.group, name, vm, nil)
	if err != nil {
		return nil, err
	}
	made, err := poller.PollUntilDone(ctx, often())
	return &made.VirtualMachine, err
}

func (a *azure) remove(name string) error {
	poller, err := a.vms.BeginDelete(a.t.Context(), a.group, name, &armcompute.VirtualMachinesClientBeginDeleteOptions{ForceDeletion: to.Ptr(true)})
	if err != nil {
		return err
	}
	_, err = poller.PollUntilDone(a.t.Context(), often())
	return err
}

func (a *azure) mustCreate(name string, vm armcompute.VirtualMachine) *armcompute.VirtualMachine {
	a.t.Helper()
	made, err := a.create(name, vm)
	if err != nil {
		a.t.Fatalf("creating %s: %v", name, err)
	}
	return made
}

func (a *azure) mustRemove(name string) {
	a.t.Helper()
	if err := a.remove(name); err != nil {
		a.t.Fatalf("deleting %s: %v", name, err)
	}
}

// used is what the usages API says of one quota.
func (a *azure) used(name string) int {
	a.t.Helper()
	pager := a.usages.NewListPager(a.Location(), nil)
	for pager.More() {
		page, err := pager.NextPage(a.t.Context())
		if err != nil {
			a.t.Fatal(err)
		}
		for _, u := range page.Value {
			if *u.Name.Value == name {
				return int(*u.CurrentValue)
			}
		}
	}
	a.t.Fatalf("no usage is called %s", name)
	return 0
}

func often() *runtime.PollUntilDoneOptions {
	return &runtime.PollUntilDoneOptions{Frequency: 5 * time.Millisecond}
}

// wantCode fails the test unless err is Azure's with this status and code.
func wantCode(t *testing.T, err error, status int, code string) *azcore.ResponseError {
	t.Helper()
	var response *azcore.ResponseError
	if !errors.As(err, &response) {
		t.Fatalf("got error %v, want an Azure error %s", err, code)
	}
	if response.StatusCode != status || response.ErrorCode != code {
		t.Fatalf("got %d %s, want %d %s: %v", response.StatusCode, response.ErrorCode, status, code, err)
	}
	return response
}

// eventually waits for a condition that the emulator brings about by itself.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("waited in vain for %s", what)
		case <-tick.C:
		}
	}
}

func isCode(err error, code string) bool {
	var response *azcore.ResponseError
	return errors.As(err, &response) && response.ErrorCode == code
}
