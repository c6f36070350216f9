// SPDX-License-Identifier: Apache-2.0

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
func (r *vmRequest) nic(ctx context.Context) (*armcompute.VirtualMachineNetworkInterfaceConfiguration, error) {
	pools, err := r.network.BackendPools(ctx)
	if err != nil {
		return nil, err
	}
	nsg, err := r.network.SecurityGroup(ctx, r.subnet)
	if err != nil {
		return nil, err
	}
	dual, err := r.network.DualStack(ctx, r.subnet)
	if err != nil {
		return nil, err
	}
	addresses := r.addresses(pools.IPv4)
	if dual {
		addresses = append(addresses, r.address(r.handle+network.IPv6Suffix, armcompute.IPVersionsIPv6, pools.IPv6))
	}
	properties := &armcompute.VirtualMachineNetworkInterfaceConfigurationProperties{
		Primary:                     to.Ptr(true),
		DeleteOption:                to.Ptr(armcompute.DeleteOptionsDelete),
		EnableAcceleratedNetworking: to.Ptr(r.instanceType.sku.Features.AcceleratedNetworking),
		EnableIPForwarding:          to.Ptr(false),
		IPConfigurations:            addresses,
	}
	if nsg != "" {
		properties.NetworkSecurityGroup = &armcompute.SubResource{ID: to.Ptr(nsg)}
	}
	return &armcompute.VirtualMachineNetworkInterfaceConfiguration{
		Name: to.Ptr(r.handle), Properties: properties, Tags: armtext.Pointers(r.owner.tags(r.class, r.claim)),
	}, nil
}

// addresses returns the IP configuration of the node and, without an overlay, one for each of
// its other pods.
func (r *vmRequest) addresses(pools []string) []*armcompute.VirtualMachineNetworkInterfaceIPConfiguration {
	first := r.address(r.handle, "", pools)
	first.Properties.Primary = to.Ptr(true)
	all := []*armcompute.VirtualMachineNetworkInterfaceIPConfiguration{first}
	if !r.opts.cni().PodsInSubnet() {
		return all
	}
	for i := int64(1); i < r.instanceType.maxPods; i++ {
		all = append(all, r.address("ipconfig"+strconv.FormatInt(i, 10), "", nil))
	}
	return all
}

// address returns an IP configuration that is not primary; IPv4 when no version is given.
func (r *vmRequest) address(name string, version armcompute.IPVersions, pools []string) *armcompute.VirtualMachineNetworkInterfaceIPConfiguration {
	properties := &armcompute.VirtualMachineNetworkInterfaceIPConfigurationProperties{
		Primary: to.Ptr(false), Subnet: &armcompute.SubResource{ID: to.Ptr(r.subnetID)},
	}
	if version != "" {
		properties.PrivateIPAddressVersion = to.Ptr(version)
	}
	for _, pool := range pools {
		properties.LoadBalancerBackendAddressPools = append(properties.LoadBalancerBackendAddressPools, &armcompute.SubResource{ID: to.Ptr(pool)})
	}
	return &armcompute.VirtualMachineNetworkInterfaceIPConfiguration{Name: to.Ptr(name), Properties: properties}
}
