package azure

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
)

// subnetID is a parsed subnet resource ID.
type subnetID struct{ subscription, group, vnet, subnet string }

func parseSubnetID(id string) (subnetID, error) {
	r, err := arm.ParseResourceID(id)
	if err != nil {
		return subnetID{}, fmt.Errorf("%q is not a resource ID", id)
	}
	if !strings.EqualFold(r.ResourceType.String(), "Microsoft.Network/virtualNetworks/subnets") || r.Parent == nil {
		return subnetID{}, fmt.Errorf("%q is not the resource ID of a subnet (…/providers/Microsoft.Network/virtualNetworks/<network>/subnets/<subnet>)", id)
	}
	return subnetID{subscription: r.SubscriptionID, group: r.ResourceGroupName, vnet: r.Parent.Name, subnet: r.Name}, nil
}

// parseSecurityGroupID returns the name in a network security group's ID.
func parseSecurityGroupID(id string) (name string, err error) {
	r, err := arm.ParseResourceID(id)
	if err != nil || !strings.EqualFold(r.ResourceType.String(), "Microsoft.Network/networkSecurityGroups") {
		return "", fmt.Errorf("%q is not the resource ID of a network security group (…/providers/Microsoft.Network/networkSecurityGroups/<group>)", id)
	}
	return r.Name, nil
}

// sameVNet reports whether two subnets are in the same virtual network. ARM IDs ignore case.
func (s subnetID) sameVNet(o subnetID) bool {
	return strings.EqualFold(s.subscription, o.subscription) && strings.EqualFold(s.group, o.group) && strings.EqualFold(s.vnet, o.vnet)
}

var managedVNet = regexp.MustCompile(`(?i)^aks-vnet-\d{8}$`)

// managed reports whether AKS created the network, rather than the user.
func (s subnetID) managed(nodeGroup string) bool {
	return strings.EqualFold(s.group, nodeGroup) && managedVNet.MatchString(s.vnet)
}

// id returns the subnet's resource ID.
func (s subnetID) id() string {
	return "/subscriptions/" + url.PathEscape(s.subscription) + "/resourceGroups/" + url.PathEscape(s.group) +
		"/providers/Microsoft.Network/virtualNetworks/" + url.PathEscape(s.vnet) + "/subnets/" + url.PathEscape(s.subnet)
}

// key returns the network and the subnet in lower case. Nodes of a cluster are in one virtual
// network, so these names are enough to distinguish subnets.
func (s subnetID) key() string { return strings.ToLower(s.vnet + "/" + s.subnet) }
