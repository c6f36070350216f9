package azure

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/engine/offer"
	"github.com/karve-dev/karve/provider"
)

// errBeforeRequest marks failures that happened before a machine was asked for.
var errBeforeRequest = errors.New("preparing the machine")

// create asks for a machine. It never changes one that exists.
func (l *launch) create(ctx context.Context, m *machineType, choice offer.Choice) error {
	body, err := l.body(ctx, m, choice)
	if err != nil {
		return err
	}
	poller, err := l.p.clients.vms.BeginCreateOrUpdate(ctx, l.p.opts.NodeResourceGroup, l.name, *body,
		&armcompute.VirtualMachinesClientBeginCreateOrUpdateOptions{IfNoneMatch: to.Ptr("*")})
	if err != nil {
		if classify(err).kind == staleReference {
			l.p.network.forgetPools()
		}
		return err
	}
	now := l.p.opts.Now()
	l.p.ledger.settle(l.name, now)
	l.p.flights.put(l.name, flight{asked: now, operation: poller})
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
	customData, err := l.customData(ctx, m, choice, subnet)
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
	setPriority(vm.Properties, choice.CapacityType)
	return vm, nil
}

// setPriority makes a spot machine one that Azure may take back, for which we pay
// up to the full price and of which nothing stays.
func setPriority(vm *armcompute.VirtualMachineProperties, capacityType string) {
	vm.Priority = to.Ptr(armcompute.VirtualMachinePriorityTypesRegular)
	if capacityType == offer.Spot {
		vm.Priority = to.Ptr(armcompute.VirtualMachinePriorityTypesSpot)
		vm.EvictionPolicy = to.Ptr(armcompute.VirtualMachineEvictionPolicyTypesDelete)
		vm.BillingProfile = &armcompute.BillingProfile{MaxPrice: to.Ptr(-1.0)}
	}
}

// image picks from the class's status or, before the class controller has been
// there, from the galleries.
func (l *launch) image(ctx context.Context, s *sku) (string, error) {
	images := l.class.Status.Images
	if len(images) == 0 {
		var err error
		if images, err = l.p.Images(ctx, &l.class.Spec, kubernetesVersion(l.class)); err != nil {
			return "", err
		}
	}
	id, ok := imageFor(images, s)
	if !ok {
		return "", &provider.NotReadyError{Class: l.class.Name, Reason: v1beta1.ReasonImagesNotFound, Detail: "no image starts on " + s.name}
	}
	return id, nil
}

func imageReference(id string) *armcompute.ImageReference {
	if strings.HasPrefix(strings.ToLower(id), "/communitygalleries/") {
		return &armcompute.ImageReference{CommunityGalleryImageID: to.Ptr(id)}
	}
	return &armcompute.ImageReference{ID: to.Ptr(id)}
}

// disk is the OS disk: on the host where it fits, else a managed one. Its name
// depends on the choice too, as the disk of a failed attempt may still be on its
// way out when the next is made.
func (l *launch) disk(m *machineType, choice offer.Choice) *armcompute.OSDisk {
	sum := sha256.Sum256([]byte(choice.Type + "/" + choice.Zone + "/" + choice.CapacityType))
	sizeGB := m.offered.Capacity["ephemeral-storage"] / gigabyte
	disk := &armcompute.OSDisk{
		Name:         to.Ptr(l.name + "-" + hex.EncodeToString(sum[:3])),
		CreateOption: to.Ptr(armcompute.DiskCreateOptionTypesFromImage),
		DeleteOption: to.Ptr(armcompute.DiskDeleteOptionTypesDelete),
		DiskSizeGB:   to.Ptr(int32(sizeGB)),
	}
	if placement, ok := m.sku.local.placement(sizeGB); ok {
		disk.Caching = to.Ptr(armcompute.CachingTypesReadOnly)
		disk.DiffDiskSettings = &armcompute.DiffDiskSettings{Option: to.Ptr(armcompute.DiffDiskOptionsLocal), Placement: to.Ptr(placement)}
	}
	return disk
}

// nic is the one interface. It is made and unmade with the machine.
func (l *launch) nic(ctx context.Context, m *machineType, subnet subnetID) (*armcompute.VirtualMachineNetworkInterfaceConfiguration, error) {
	pools, err := l.p.network.backendPools(ctx)
	if err != nil {
		return nil, err
	}
	nsg, err := l.p.network.securityGroup(ctx, subnet)
	if err != nil {
		return nil, err
	}
	properties := &armcompute.VirtualMachineNetworkInterfaceConfigurationProperties{
		Primary:                     to.Ptr(true),
		DeleteOption:                to.Ptr(armcompute.DeleteOptionsDelete),
		EnableAcceleratedNetworking: to.Ptr(m.sku.acceleratedNetworking),
		EnableIPForwarding:          to.Ptr(false),
		IPConfigurations:            l.addresses(m, pools),
	}
	if nsg != "" {
		properties.NetworkSecurityGroup = &armcompute.SubResource{ID: to.Ptr(nsg)}
	}
	return &armcompute.VirtualMachineNetworkInterfaceConfiguration{
		Name: to.Ptr(l.name), Properties: properties, Tags: pointers(l.p.tags(l.class, l.claim)),
	}, nil
}

// addresses are the node's own address and, without an overlay, one for each of
// its other pods.
func (l *launch) addresses(m *machineType, pools []string) []*armcompute.VirtualMachineNetworkInterfaceIPConfiguration {
	subnet := &armcompute.SubResource{ID: to.Ptr(l.p.subnetOf(l.class))}
	first := &armcompute.VirtualMachineNetworkInterfaceIPConfigurationProperties{Primary: to.Ptr(true), Subnet: subnet}
	for _, pool := range pools {
		first.LoadBalancerBackendAddressPools = append(first.LoadBalancerBackendAddressPools, &armcompute.SubResource{ID: to.Ptr(pool)})
	}
	all := []*armcompute.VirtualMachineNetworkInterfaceIPConfiguration{{Name: to.Ptr(l.name), Properties: first}}
	if l.p.opts.NetworkPlugin != pluginAzure || l.p.opts.NetworkPluginMode == modeOverlay {
		return all
	}
	for i := int64(1); i < m.maxPods; i++ {
		all = append(all, &armcompute.VirtualMachineNetworkInterfaceIPConfiguration{
			Name:       to.Ptr("ipconfig" + strconv.FormatInt(i, 10)),
			Properties: &armcompute.VirtualMachineNetworkInterfaceIPConfigurationProperties{Primary: to.Ptr(false), Subnet: subnet},
		})
	}
	return all
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

// customData asks for the token now: one that was rotated an hour ago would make
// machines that never join.
func (l *launch) customData(ctx context.Context, m *machineType, choice offer.Choice, subnet subnetID) (string, error) {
	o := &l.p.opts
	token, err := o.BootstrapToken(ctx)
	if err != nil {
		return "", fmt.Errorf("reading the bootstrap token: %w", err)
	}
	if token == "" {
		return "", errors.New("the bootstrap token is empty")
	}
	labels, err := l.nodeLabels(ctx, m, choice, subnet)
	if err != nil {
		return "", err
	}
	taints := append([]provider.Taint{unregistered()}, l.claim.Taints...)
	n := &bootNode{
		name: l.name, server: serverName(o.ClusterEndpoint), ca: o.CABundle, token: token,
		version: kubernetesVersion(l.class), labels: labels, taints: append(taints, l.claim.StartupTaints...),
		maxPods: m.maxPods, reserved: m.reserved, gpu: driverFor(m.sku, l.class.Spec.InstallsGPUDriver()),
		kubelet: l.class.Spec.Kubelet, dns: o.DNSServiceIP,
		subscription: o.SubscriptionID, tenant: o.TenantID, group: o.NodeResourceGroup, location: o.Location,
		subnet: subnet, networkPlugin: o.bootstrapPlugin(), networkPolicy: o.NetworkPolicy,
		identityClientID: o.KubeletIdentityClientID, adminUser: o.AdminUsername,
	}
	return n.customData()
}

// bootstrapPlugin is the plugin the image sets up: none where a DaemonSet brings it.
func (o *Options) bootstrapPlugin() string {
	if o.NetworkPlugin == pluginNone || o.NetworkPluginMode == modeOverlay || o.NetworkDataplane == dataplaneCilium {
		return pluginNone
	}
	return pluginAzure
}

// nodeLabels are all labels the node will have: those of its type and offer, of
// AKS, and over them those of the claim.
func (l *launch) nodeLabels(ctx context.Context, m *machineType, choice offer.Choice, subnet subnetID) (map[string]string, error) {
	labels := map[string]string{}
	single(labels, m.offered.Labels)
	if o := m.offer(choice); o != nil {
		single(labels, o.Labels)
	}
	maps.Copy(labels, l.aksLabels(choice))
	if err := l.networkLabels(ctx, labels, subnet); err != nil {
		return nil, err
	}
	maps.Copy(labels, l.claim.Labels)
	labels[labelCapacityType] = choice.CapacityType
	labels[labelDoNotSyncTaints] = "true"
	if l.claim.Pool != "" {
		labels[labelNodePool] = l.claim.Pool
	}
	return labels, nil
}

// aksLabels are what AKS puts on nodes of its own pools. The claim may choose
// another mode.
func (l *launch) aksLabels(choice offer.Choice) map[string]string {
	spec := &l.class.Spec
	labels := map[string]string{
		v1beta1.LabelNodeClass:           l.class.Name,
		v1beta1.AKSLabelRole:             v1beta1.RoleAgent,
		v1beta1.AKSLabelMode:             v1beta1.ModeUser,
		v1beta1.AKSLabelScaleSetPriority: priorityLabel(choice.CapacityType),
		v1beta1.AKSLabelOSSKURequested:   string(imageFamily(spec)),
		v1beta1.AKSLabelOSSKUEffective:   releaseFor(spec, minorOf(kubernetesVersion(l.class))).label,
	}
	if id := l.p.opts.KubeletIdentityClientID; id != "" {
		labels[v1beta1.AKSLabelKubeletIdentityClientID] = id
	}
	return labels
}

func (l *launch) networkLabels(ctx context.Context, labels map[string]string, subnet subnetID) error {
	o := &l.p.opts
	if o.NetworkDataplane == dataplaneCilium {
		labels[v1beta1.AKSLabelEBPFDataplane] = dataplaneCilium
	}
	if o.NetworkPlugin != pluginAzure || o.NetworkPluginMode != modeOverlay {
		return nil
	}
	guid, err := l.p.network.vnetGUID(ctx, subnet)
	if err != nil {
		return err
	}
	if guid != "" {
		labels[v1beta1.AKSLabelVNetGUID] = guid
	}
	labels[v1beta1.AKSLabelNetworkSubnet] = subnet.subnet
	labels[v1beta1.AKSLabelAzureCNIOverlay] = "true"
	labels[v1beta1.AKSLabelPodNetworkType] = modeOverlay
	labels[v1beta1.AKSLabelNetworkStatelessCNI] = strconv.FormatBool(minorOf(kubernetesVersion(l.class)) >= 34)
	return nil
}
