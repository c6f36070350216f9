package azure

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/engine/offer"
)

// errBeforeRequest marks failures that happened before a machine was asked for.
var errBeforeRequest = errors.New("preparing the machine")

// create asks for a machine. It never changes one that exists.
func (l *launch) create(ctx context.Context, m *machineType, choice offer.Choice) error {
	body, err := l.body(ctx, m, choice)
	if err != nil {
		return err
	}
	if ctx, err = l.p.auxiliary.allow(ctx); err != nil {
		return fmt.Errorf("%w: %w", errBeforeRequest, err)
	}
	var accepted *http.Response
	poller, err := l.p.clients.vms.BeginCreateOrUpdate(policy.WithCaptureResponse(ctx, &accepted), l.p.opts.NodeResourceGroup, l.name, *body,
		&armcompute.VirtualMachinesClientBeginCreateOrUpdateOptions{IfNoneMatch: to.Ptr("*")})
	if err != nil {
		switch classify(err).kind {
		case staleReference:
			l.p.network.forgetPools()
		case denied:
			l.p.auxiliary.forget(ctx)
		}
		return err
	}
	now := l.p.opts.Now()
	l.settle(now)
	l.p.flights.put(l.name, flight{asked: now, operation: poller})
	l.accepted = toNote(accepted, choice, now)
	return nil
}

// body is the whole machine: disk, interface and first script in one request.
func (l *launch) body(ctx context.Context, m *machineType, choice offer.Choice) (*armcompute.VirtualMachine, error) {
	prepare := func(err error) error { return fmt.Errorf("%w: %w", errBeforeRequest, err) }
	image, err := l.image(ctx, m.sku)
	if err != nil {
		return nil, prepare(err)
	}
	subnet, err := parseSubnetID(l.p.subnetOf(l.class))
	if err != nil {
		return nil, prepare(err)
	}
	nic, err := l.nic(ctx, m, subnet)
	if err != nil {
		return nil, prepare(err)
	}
	customData, err := l.customData(ctx, m, choice, subnet, image)
	if err != nil {
		return nil, prepare(err)
	}
	vm := &armcompute.VirtualMachine{
		Location: to.Ptr(l.p.opts.Location),
		Tags:     pointers(l.p.machineTags(l.class, l.claim)),
		Identity: identities(l.p.opts.NodeIdentities),
		Properties: &armcompute.VirtualMachineProperties{
			HardwareProfile: &armcompute.HardwareProfile{VMSize: to.Ptr(armcompute.VirtualMachineSizeTypes(choice.Type))},
			StorageProfile:  &armcompute.StorageProfile{ImageReference: imageReference(image), OSDisk: l.disk(m, choice)},
			NetworkProfile: &armcompute.NetworkProfile{
				NetworkAPIVersion:              to.Ptr(armcompute.NetworkAPIVersionTwoThousandTwentyTwo1101),
				NetworkInterfaceConfigurations: []*armcompute.VirtualMachineNetworkInterfaceConfiguration{nic},
			},
			OSProfile:       l.os(customData),
			SecurityProfile: security(&l.class.Spec),
		},
	}
	if zone := l.p.zoneNumber(choice.Zone); zone != "" {
		vm.Zones = []*string{to.Ptr(zone)}
	}
	if l.claim.Labels[v1beta1.LabelSKUUltraSSD] == "true" {
		vm.Properties.AdditionalCapabilities = &armcompute.AdditionalCapabilities{UltraSSDEnabled: to.Ptr(true)}
	}
	m.setPriority(vm.Properties, choice.CapacityType)
	return vm, nil
}

func (l *launch) os(customData string) *armcompute.OSProfile {
	user := l.p.opts.AdminUsername
	return &armcompute.OSProfile{
		AdminUsername: to.Ptr(user),
		ComputerName:  to.Ptr(l.name),
		CustomData:    to.Ptr(customData),
		LinuxConfiguration: &armcompute.LinuxConfiguration{
			DisablePasswordAuthentication: to.Ptr(true),
			SSH: &armcompute.SSHConfiguration{PublicKeys: []*armcompute.SSHPublicKey{{
				Path: to.Ptr("/home/" + user + "/.ssh/authorized_keys"), KeyData: to.Ptr(l.p.opts.SSHPublicKey),
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
