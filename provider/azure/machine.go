// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/bootstrap"
	"github.com/karve-dev/karve/provider/azure/internal/armtext"
	"github.com/karve-dev/karve/provider/azure/internal/network"
)

// errBeforeRequest marks errors before a virtual machine was requested.
var errBeforeRequest = errors.New("preparing the VM")

// prepare marks an error that happened before a virtual machine was requested.
func prepare(err error) error { return fmt.Errorf("%w: %w", errBeforeRequest, err) }

// create requests a virtual machine from the launch's backend.
func (l *launch) create(ctx context.Context, m *machineType, choice offering.Ref) error {
	memory, err := l.maker.begin(ctx, l, m, choice)
	if err != nil {
		return err
	}
	l.p.quota.Settle(l.holder(), l.p.opts.Now())
	l.accepted, l.taken = memory, true
	return nil
}

// A vmRequest writes the request for a claim's virtual machine of one offering.
type vmRequest struct {
	name     string // of the virtual machine
	claim    provider.Claim
	class    *v1beta1.AKSNodeClass
	m        *machineType
	offering offering.Ref
	image    string // resource ID
	subnet   network.SubnetID
	subnetID string // of subnet, as the class spells it

	opts    *Options
	zones   zones
	owner   ownership
	network *network.Reader
	boots   *bootstrap.Encoder
}

// request returns the vmRequest for an offering.
func (l *launch) request(ctx context.Context, m *machineType, o offering.Ref) (*vmRequest, error) {
	imageID, err := l.image(ctx, m.sku)
	if err != nil {
		return nil, prepare(err)
	}
	subnet, err := l.p.subnets.parsed(l.class)
	if err != nil {
		return nil, prepare(err)
	}
	return &vmRequest{
		name: l.name, claim: l.claim, class: l.class, m: m, offering: o, image: imageID, subnet: subnet, subnetID: l.p.subnets.of(l.class),
		opts: &l.p.opts, zones: l.p.zones, owner: l.p.owner, network: l.p.network, boots: &l.p.boots,
	}, nil
}

// body returns the whole virtual machine: disk, interface and customData in one request.
func (r *vmRequest) body(ctx context.Context) (*armcompute.VirtualMachine, error) {
	nic, err := r.nic(ctx)
	if err != nil {
		return nil, prepare(err)
	}
	customData, err := r.customData(ctx)
	if err != nil {
		return nil, prepare(err)
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
	if zone := r.zones.number(r.offering.Zone); zone != "" {
		vm.Zones = []*string{to.Ptr(zone)}
	}
	if r.claim.Labels[v1beta1.LabelSKUUltraSSD] == "true" {
		vm.Properties.AdditionalCapabilities = &armcompute.AdditionalCapabilities{UltraSSDEnabled: to.Ptr(true)}
	}
	r.m.setPriority(vm.Properties, r.offering.CapacityType)
	return vm, nil
}

func (r *vmRequest) os(customData string) *armcompute.OSProfile {
	user := r.opts.AdminUsername
	return &armcompute.OSProfile{
		AdminUsername: to.Ptr(user),
		ComputerName:  to.Ptr(r.name),
		CustomData:    to.Ptr(customData),
		LinuxConfiguration: &armcompute.LinuxConfiguration{
			DisablePasswordAuthentication: to.Ptr(true),
			SSH: &armcompute.SSHConfiguration{PublicKeys: []*armcompute.SSHPublicKey{{
				Path: to.Ptr("/home/" + user + "/.ssh/authorized_keys"), KeyData: to.Ptr(r.opts.SSHPublicKey),
			}}},
		},
	}
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

// spotMaxPrice returns the limit for Azure's API: dollars an hour with five decimals. Without a
// limit it is -1: Azure then never evicts because of the price, and charges at most the
// on-demand price.
func (m *machineType) spotMaxPrice() float64 {
	if m.spotMost <= 0 {
		return -1
	}
	return math.Floor(m.spotMost.USD()*1e5) / 1e5
}

// setPriority sets the priority of a virtual machine. A spot one is deleted when Azure evicts
// it.
func (m *machineType) setPriority(vm *armcompute.VirtualMachineProperties, capacityType string) {
	vm.Priority = to.Ptr(armcompute.VirtualMachinePriorityTypesRegular)
	if capacityType != offering.Spot {
		return
	}
	vm.Priority = to.Ptr(armcompute.VirtualMachinePriorityTypesSpot)
	vm.EvictionPolicy = to.Ptr(armcompute.VirtualMachineEvictionPolicyTypesDelete)
	vm.BillingProfile = &armcompute.BillingProfile{MaxPrice: to.Ptr(m.spotMaxPrice())}
}
