package azure

import (
	"context"
	"strconv"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/karve-dev/karve/provider/azure/internal/armtext"
	"github.com/karve-dev/karve/provider/azure/internal/network"
)

// nic returns the node's interface. It is created and deleted with the virtual machine.
func (l *launch) nic(ctx context.Context, m *machineType, subnet network.SubnetID) (*armcompute.VirtualMachineNetworkInterfaceConfiguration, error) {
	pools, err := l.p.network.BackendPools(ctx)
	if err != nil {
		return nil, err
	}
	nsg, err := l.p.network.SecurityGroup(ctx, subnet)
	if err != nil {
		return nil, err
	}
	dual, err := l.p.network.DualStack(ctx, subnet)
	if err != nil {
		return nil, err
	}
	addresses := l.addresses(m, pools.IPv4)
	if dual {
		addresses = append(addresses, l.address(l.name+network.IPv6Suffix, armcompute.IPVersionsIPv6, pools.IPv6))
	}
	properties := &armcompute.VirtualMachineNetworkInterfaceConfigurationProperties{
		Primary:                     to.Ptr(true),
		DeleteOption:                to.Ptr(armcompute.DeleteOptionsDelete),
		EnableAcceleratedNetworking: to.Ptr(m.sku.Can.AcceleratedNetworking),
		EnableIPForwarding:          to.Ptr(false),
		IPConfigurations:            addresses,
	}
	if nsg != "" {
		properties.NetworkSecurityGroup = &armcompute.SubResource{ID: to.Ptr(nsg)}
	}
	return &armcompute.VirtualMachineNetworkInterfaceConfiguration{
		Name: to.Ptr(l.name), Properties: properties, Tags: armtext.Pointers(l.p.owner.tags(l.class, l.claim)),
	}, nil
}

// addresses returns the IP configuration of the node and, without an overlay, one for each of
// its other pods.
func (l *launch) addresses(m *machineType, pools []string) []*armcompute.VirtualMachineNetworkInterfaceIPConfiguration {
	first := l.address(l.name, "", pools)
	first.Properties.Primary = to.Ptr(true)
	all := []*armcompute.VirtualMachineNetworkInterfaceIPConfiguration{first}
	if !l.p.opts.cni().PodsInSubnet() {
		return all
	}
	for i := int64(1); i < m.maxPods; i++ {
		all = append(all, l.address("ipconfig"+strconv.FormatInt(i, 10), "", nil))
	}
	return all
}

// address returns an IP configuration that is not primary; IPv4 when no version is given.
func (l *launch) address(name string, version armcompute.IPVersions, pools []string) *armcompute.VirtualMachineNetworkInterfaceIPConfiguration {
	properties := &armcompute.VirtualMachineNetworkInterfaceIPConfigurationProperties{
		Primary: to.Ptr(false), Subnet: &armcompute.SubResource{ID: to.Ptr(l.p.subnets.of(l.class))},
	}
	if version != "" {
		properties.PrivateIPAddressVersion = to.Ptr(version)
	}
	for _, pool := range pools {
		properties.LoadBalancerBackendAddressPools = append(properties.LoadBalancerBackendAddressPools, &armcompute.SubResource{ID: to.Ptr(pool)})
	}
	return &armcompute.VirtualMachineNetworkInterfaceIPConfiguration{Name: to.Ptr(name), Properties: properties}
}
