// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v8"

	"github.com/karve-dev/karve/provider/azure/internal/armerr"
	"github.com/karve-dev/karve/provider/azure/internal/armtext"
)

// SubnetError says why nodes cannot join a subnet. Reason is one of the reasons of an
// AKSNodeClass's SubnetsReady condition.
type SubnetError struct{ Reason, Detail string }

func (e *SubnetError) Error() string { return e.Detail }

// Reasons of a SubnetError.
const (
	SubnetIDInvalid = "SubnetIDInvalid"
	SubnetNotFound  = "SubnetNotFound"
	// SubnetDelegated: the subnet is delegated to another service; only that service's resources
	// may join.
	SubnetDelegated = "SubnetDelegated"
	// SubnetTooSmall: the subnet could not hold a single node, even if it were empty.
	SubnetTooSmall = "SubnetTooSmall"
	// SubnetJoinDenied: karve has no permission to join virtual machines to it.
	SubnetJoinDenied = "SubnetJoinDenied"
)

// CheckSubnet reports whether nodes can join the subnet of a node class: a *SubnetError when
// they cannot, another error when the check failed. An empty id means the cluster's own subnet,
// and maxPods zero AKS's default.
func (n *Reader) CheckSubnet(ctx context.Context, id string, maxPods int64) error {
	subnet := n.config.ClusterSubnet
	if id != "" {
		var err error
		if subnet, err = ParseSubnetID(id); err != nil {
			return &SubnetError{SubnetIDInvalid, err.Error()}
		}
	}
	if err := subnet.joinable(n.config.ClusterSubnet, n.config.Group); err != nil {
		return err
	}
	if !strings.EqualFold(subnet.subscription, n.config.Subscription) {
		return &SubnetError{SubnetIDInvalid, fmt.Sprintf("subnet %s is in subscription %s, VMs are created in %s: Azure joins their interfaces to networks of their own subscription only", subnet.Name, subnet.subscription, n.config.Subscription)}
	}
	resp, err := n.clients.Subnets.Get(ctx, subnet.Group, subnet.VNet, subnet.Name, nil)
	if err == nil {
		if err := n.holdsNodes(subnet, resp.Properties, cmp.Or(maxPods, n.config.CNI.DefaultMaxPods())); err != nil {
			return err
		}
		return n.checkJoin(ctx, subnet)
	}
	if r := armerr.Classify(err); r.Kind == armerr.NotFound {
		return &SubnetError{SubnetNotFound, fmt.Sprintf("subnet %s does not exist in virtual network %s: create it or correct vnetSubnetID", subnet.Name, subnet.VNet)}
	}
	return armerr.Wrap(err, "reading subnet %s", subnet.Name)
}

// holdsNodes returns why a subnet that exists cannot take nodes with maxPods pods.
func (n *Reader) holdsNodes(s SubnetID, properties *armnetwork.SubnetPropertiesFormat, maxPods int64) error {
	if properties == nil {
		return nil
	}
	for _, d := range properties.Delegations {
		if d != nil && d.Properties != nil && armtext.Of(d.Properties.ServiceName) != "" {
			return &SubnetError{SubnetDelegated, fmt.Sprintf("subnet %s is delegated to %s, so that no node can join it: name another subnet, or remove the delegation", s.Name, armtext.Of(d.Properties.ServiceName))}
		}
	}
	size, needs := addressesIn(properties), n.config.CNI.AddressesPerNode(maxPods)
	if size > 0 && size < needs {
		return &SubnetError{SubnetTooSmall, fmt.Sprintf("subnet %s has %d addresses for VMs and a node takes %d: name a larger subnet, lower maxPods, or use the overlay", s.Name, size, needs)}
	}
	return nil
}

// joinable applies AKS's rules: nodes join the cluster's virtual network only, and a network that
// AKS manages has one subnet for nodes.
func (s SubnetID) joinable(clusterSubnet SubnetID, nodeGroup string) error {
	if !s.sameVNet(clusterSubnet) {
		return &SubnetError{SubnetIDInvalid, fmt.Sprintf("subnet %s is in virtual network %s of group %s, the cluster is in %s of %s: nodes must join the cluster's network", s.Name, s.VNet, s.Group, clusterSubnet.VNet, clusterSubnet.Group)}
	}
	if clusterSubnet.Managed(nodeGroup) && !strings.EqualFold(s.Name, clusterSubnet.Name) {
		return &SubnetError{SubnetIDInvalid, fmt.Sprintf("virtual network %s is managed by AKS, which allows no other subnet than %s for nodes", clusterSubnet.VNet, clusterSubnet.Name)}
	}
	return nil
}

// checkJoin checks whether karve's identity may join virtual machines to a subnet, before the
// first launch: it returns a *SubnetError when it may not. If the check fails, checkJoin returns
// nil: Azure then reports a missing permission at the first launch.
func (n *Reader) checkJoin(ctx context.Context, s SubnetID) error {
	if why := n.joinDenied(s); why != "" {
		return &SubnetError{SubnetJoinDenied, why}
	}
	id := s.id()
	grants, err := n.grants(ctx, id)
	if err != nil || len(grants) == 0 || allowed(grants, joinAction) {
		return nil //nolint:nilerr // see above
	}
	advice := armerr.Permission{Action: joinAction, Scope: id}.Advice()
	return &SubnetError{SubnetJoinDenied, fmt.Sprintf("karve may not put VMs into subnet %s: %s", s.Name, advice)}
}

// joinAction is the permission to join virtual machines to a subnet.
const joinAction = "Microsoft.Network/virtualNetworks/subnets/join/action"

// RecordDenied records that a virtual machine was refused because karve may not join its subnet,
// which checking beforehand does not always find: see checkJoin.
func (n *Reader) RecordDenied(s SubnetID, r armerr.Failure) {
	if r.Kind != armerr.Denied || !strings.Contains(strings.ToLower(r.Advice), strings.ToLower(joinAction)) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.denied[s.Key()] = joinDenial{r.Advice, n.now()}
}

// joinDenied returns why virtual machines may not join, if that was recorded recently.
func (n *Reader) joinDenied(s SubnetID) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	known := n.denied[s.Key()]
	if known.at.IsZero() || n.now().Sub(known.at) >= DeniedTTL {
		return ""
	}
	return known.advice
}
