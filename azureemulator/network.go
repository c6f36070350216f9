// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"fmt"
	"net/netip"
	"slices"
)

// Network is what tests change of the subscription's network.
type Network struct {
	networks  *virtualNetworks
	groups    *securityGroups
	balancers *loadBalancers
	sub       *subscription
	clock     *clock
}

// AddSubnet makes a subnet, and its virtual network and resource group if they
// do not exist: networks that are the user's own, or small enough to fill up.
func (nw *Network) AddSubnet(group, network, name, prefix string) (id string, err error) {
	parsed, err := subnetPrefix(prefix)
	if err != nil {
		return "", fmt.Errorf("adding subnet %s: %w", name, err)
	}
	nw.clock.Lock()
	defer nw.clock.Unlock()
	n, err := nw.networks.add(group, network, name, parsed)
	if err != nil {
		return "", fmt.Errorf("adding subnet %s: %w", name, err)
	}
	return n.id, nil
}

// AddIPv6 gives a subnet a range of IPv6 besides its own, as clusters of both families have.
func (nw *Network) AddIPv6(id, prefix string) error {
	six, err := netip.ParsePrefix(prefix)
	if err != nil || !six.Addr().Is6() || six.Bits() != 64 {
		return fmt.Errorf("adding a range of IPv6: %q is not one, of 64 bits as Azure wants it", prefix)
	}
	nw.clock.Lock()
	defer nw.clock.Unlock()
	n := nw.networks.subnet(id)
	if n == nil {
		return fmt.Errorf("adding a range of IPv6: there is no subnet %s", id)
	}
	n.addSix(six.Masked())
	return nil
}

// DelegateSubnet gives a subnet to a service, such as Microsoft.Web/serverFarms.
func (nw *Network) DelegateSubnet(id, service string) error {
	nw.clock.Lock()
	defer nw.clock.Unlock()
	n := nw.networks.subnet(id)
	if n == nil {
		return fmt.Errorf("delegating a subnet: there is no %s", id)
	}
	n.service = service
	return nil
}

// SetJoin gives clients the right to put interfaces into a subnet, which they have at the
// start, or takes it away.
func (nw *Network) SetJoin(subnetID string, allowed bool) error {
	nw.clock.Lock()
	defer nw.clock.Unlock()
	n := nw.networks.subnet(subnetID)
	if n == nil {
		return fmt.Errorf("there is no subnet %s", subnetID)
	}
	n.closed = !allowed
	return nil
}

// AddSecurityGroup makes a group in the node resource group and returns its ID.
func (nw *Network) AddSecurityGroup(name string) (id string) {
	nw.clock.Lock()
	defer nw.clock.Unlock()
	return nw.groups.add(name)
}

// SecurityGroups are the names of the groups in the node resource group.
func (nw *Network) SecurityGroups() []string {
	nw.clock.Lock()
	defer nw.clock.Unlock()
	var names []string
	for _, g := range nw.groups.byKey {
		names = append(names, g.name)
	}
	slices.Sort(names)
	return names
}

// RemoveSecurityGroup takes one away. Azure would refuse while an interface names it.
func (nw *Network) RemoveSecurityGroup(name string) {
	nw.clock.Lock()
	defer nw.clock.Unlock()
	delete(nw.groups.byKey, key(nw.sub.nodeGroup, name))
}

// AddLoadBalancer makes a load balancer with pools in the node resource group.
func (nw *Network) AddLoadBalancer(name string, pools ...string) {
	nw.clock.Lock()
	defer nw.clock.Unlock()
	nw.balancers.add(name, pools...)
}

// SetBackendPools replaces the backend pools of a load balancer of the node
// resource group, as AKS does when it rebuilds one.
func (nw *Network) SetBackendPools(loadBalancer string, pools ...string) error {
	nw.clock.Lock()
	defer nw.clock.Unlock()
	l := nw.balancers.named(loadBalancer)
	if l == nil {
		return fmt.Errorf("setting backend pools: %w", resourceNotFound("Microsoft.Network/loadBalancers", loadBalancer, nw.sub.nodeGroup))
	}
	l.pools = slices.Clone(pools)
	return nil
}
