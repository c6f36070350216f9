package azure

import (
	"context"
	"strconv"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
)

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
