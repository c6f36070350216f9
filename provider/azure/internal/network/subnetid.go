// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
)

// SubnetID is a parsed subnet resource ID.
type SubnetID struct{ subscription, Group, VNet, Name string }

func ParseSubnetID(id string) (SubnetID, error) {
	r, err := arm.ParseResourceID(id)
	if err != nil {
		return SubnetID{}, fmt.Errorf("%q is not a resource ID", id)
	}
	if !strings.EqualFold(r.ResourceType.String(), "Microsoft.Network/virtualNetworks/subnets") || r.Parent == nil {
		return SubnetID{}, fmt.Errorf("%q is not the resource ID of a subnet (…/providers/Microsoft.Network/virtualNetworks/<network>/subnets/<subnet>)", id)
	}
	return SubnetID{subscription: r.SubscriptionID, Group: r.ResourceGroupName, VNet: r.Parent.Name, Name: r.Name}, nil
}

// ParseSecurityGroupID returns the name in a network security group's ID.
func ParseSecurityGroupID(id string) (name string, err error) {
	r, err := arm.ParseResourceID(id)
	if err != nil || !strings.EqualFold(r.ResourceType.String(), "Microsoft.Network/networkSecurityGroups") {
		return "", fmt.Errorf("%q is not the resource ID of a network security group (…/providers/Microsoft.Network/networkSecurityGroups/<group>)", id)
	}
	return r.Name, nil
}

// sameVNet reports whether two subnets are in the same virtual network. ARM IDs ignore case.
func (s SubnetID) sameVNet(o SubnetID) bool {
	return strings.EqualFold(s.subscription, o.subscription) && strings.EqualFold(s.Group, o.Group) && strings.EqualFold(s.VNet, o.VNet)
}

var managedVNet = regexp.MustCompile(`(?i)^aks-vnet-\d{8}$`)

// Managed reports whether AKS created the network, rather than the user.
func (s SubnetID) Managed(nodeGroup string) bool {
	return strings.EqualFold(s.Group, nodeGroup) && managedVNet.MatchString(s.VNet)
}

// id returns the subnet's resource ID.
func (s SubnetID) id() string {
	return "/subscriptions/" + url.PathEscape(s.subscription) + "/resourceGroups/" + url.PathEscape(s.Group) +
		"/providers/Microsoft.Network/virtualNetworks/" + url.PathEscape(s.VNet) + "/subnets/" + url.PathEscape(s.Name)
}

// Key returns the network and the subnet in lower case. Nodes of a cluster are in one virtual
// network, so these names are enough to distinguish subnets.
func (s SubnetID) Key() string { return strings.ToLower(s.VNet + "/" + s.Name) }
