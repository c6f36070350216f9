// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"context"
	"math"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider/azure/bootstrap"
	"github.com/karve-dev/karve/provider/azure/internal/armtext"
	"github.com/karve-dev/karve/provider/azure/internal/network"
)

// requestSettings are the settings of the cluster that the request for a virtual machine contains.
type requestSettings struct {
	opts    *Options
	subnets nodeSubnets
	region  regionName
	owner   ownership
	network *network.Reader
	encoder *bootstrap.Encoder
}

// A vmRequest writes the request for one virtual machine.
type vmRequest struct {
	*vmSpec
	requestSettings
	subnet   network.SubnetID
	subnetID string // of subnet, as the class spells it
}

// body returns the whole virtual machine: disk, interface and customData in one request.
func (s requestSettings) body(ctx context.Context, spec *vmSpec) (*armcompute.VirtualMachine, error) {
	subnet, err := s.subnets.parsed(spec.class)
	if err != nil {
		return nil, err
	}
	r := &vmRequest{vmSpec: spec, requestSettings: s, subnet: subnet, subnetID: s.subnets.idOf(spec.class)}
	return r.virtualMachine(ctx)
}

func (r *vmRequest) virtualMachine(ctx context.Context) (*armcompute.VirtualMachine, error) {
	nic, err := r.nic(ctx)
	if err != nil {
		return nil, err
	}
	customData, err := r.customData(ctx)
	if err != nil {
		return nil, err
	}
	vm := &armcompute.VirtualMachine{
		Location: to.Ptr(r.opts.Location),
		Tags:     armtext.Pointers(r.owner.vmTags(r.class, r.claim)),
		Identity: identities(r.opts.NodeIdentities),
		Properties: &armcompute.VirtualMachineProperties{
			HardwareProfile: &armcompute.HardwareProfile{VMSize: to.Ptr(armcompute.VirtualMachineSizeTypes(r.offering.Type))},
			StorageProfile:  &armcompute.StorageProfile{ImageReference: imageReference(r.image), OSDisk: r.disk()},
			NetworkProfile: &armcompute.NetworkProfile{
				NetworkAPIVersion:              to.Ptr(armcompute.NetworkAPIVersionTwoThousandTwentyTwo1101),
				NetworkInterfaceConfigurations: []*armcompute.VirtualMachineNetworkInterfaceConfiguration{nic},
			},
			OSProfile:       r.os(customData),
			SecurityProfile: security(&r.class.Spec),
		},
	}
	if zone := r.region.zoneNumber(r.offering.Zone); zone != "" {
		vm.Zones = []*string{to.Ptr(zone)}
	}
	if r.claim.Labels[v1beta1.LabelSKUUltraSSD] == "true" {
		vm.Properties.AdditionalCapabilities = &armcompute.AdditionalCapabilities{UltraSSDEnabled: to.Ptr(true)}
	}
	r.instanceType.setPriority(vm.Properties, r.offering.CapacityType)
	return vm, nil
}

func (r *vmRequest) os(customData string) *armcompute.OSProfile {
	user := r.opts.AdminUsername
	return &armcompute.OSProfile{
		AdminUsername: to.Ptr(user),
		ComputerName:  to.Ptr(r.handle),
		CustomData:    to.Ptr(customData),
		LinuxConfiguration: &armcompute.LinuxConfiguration{
			DisablePasswordAuthentication: to.Ptr(true),
			SSH: &armcompute.SSHConfiguration{PublicKeys: []*armcompute.SSHPublicKey{{
				Path: to.Ptr("/home/" + user + "/.ssh/authorized_keys"), KeyData: to.Ptr(r.opts.SSHPublicKey),
			}}},
		},
	}
}

func imageReference(id string) *armcompute.ImageReference {
	if strings.HasPrefix(strings.ToLower(id), "/communitygalleries/") {
		return &armcompute.ImageReference{CommunityGalleryImageID: to.Ptr(id)}
	}
	return &armcompute.ImageReference{ID: to.Ptr(id)}
}

func security(spec *v1beta1.AKSNodeClassSpec) *armcompute.SecurityProfile {
	if spec.Security == nil {
		return nil
	}
	profile := &armcompute.SecurityProfile{EncryptionAtHost: spec.Security.EncryptionAtHost}
	if spec.UsesTrustedLaunch() {
		profile.SecurityType = to.Ptr(armcompute.SecurityTypesTrustedLaunch)
		profile.UefiSettings = &armcompute.UefiSettings{
			VTpmEnabled: spec.Security.TrustedLaunch.VTPM, SecureBootEnabled: spec.Security.TrustedLaunch.SecureBoot,
		}
	}
	return profile
}

func identities(ids []string) *armcompute.VirtualMachineIdentity {
	if len(ids) == 0 {
		return nil
	}
	assigned := map[string]*armcompute.UserAssignedIdentitiesValue{}
	for _, id := range ids {
		assigned[id] = &armcompute.UserAssignedIdentitiesValue{}
	}
	return &armcompute.VirtualMachineIdentity{Type: to.Ptr(armcompute.ResourceIdentityTypeUserAssigned), UserAssignedIdentities: assigned}
}

// billingMaxPrice returns the limit for Azure's API: dollars an hour with five decimals. Without a
// limit it is -1: Azure then never evicts because of the price, and charges at most the
// on-demand price.
func (t *instanceType) billingMaxPrice() float64 {
	if t.maxSpotPrice <= 0 {
		return -1
	}
	return math.Floor(t.maxSpotPrice.USD()*1e5) / 1e5
}

// setPriority sets the priority of a virtual machine. A spot one is deleted when Azure evicts
// it.
func (t *instanceType) setPriority(vm *armcompute.VirtualMachineProperties, capacityType string) {
	vm.Priority = to.Ptr(armcompute.VirtualMachinePriorityTypesRegular)
	if capacityType != offering.Spot {
		return
	}
	vm.Priority = to.Ptr(armcompute.VirtualMachinePriorityTypesSpot)
	vm.EvictionPolicy = to.Ptr(armcompute.VirtualMachineEvictionPolicyTypesDelete)
	vm.BillingProfile = &armcompute.BillingProfile{MaxPrice: to.Ptr(t.billingMaxPrice())}
}
