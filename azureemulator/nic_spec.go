// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"slices"
	"strings"
)

// nicSpec is what a client asks of an interface, in its own request or, as
// networkInterfaceConfigurations, within a virtual machine's.
type nicSpec struct {
	Location   string            `json:"location"`
	Tags       map[string]string `json:"tags"`
	Properties nicProperties     `json:"properties"`
}

type nicProperties struct {
	Primary              *bool          `json:"primary"`
	DeleteOption         string         `json:"deleteOption"`
	Accelerated          bool           `json:"enableAcceleratedNetworking"`
	NetworkSecurityGroup *idRef         `json:"networkSecurityGroup"`
	IPConfigurations     []ipConfigSpec `json:"ipConfigurations"`
}

type ipConfigSpec struct {
	Name       string `json:"name"`
	Properties struct {
		Primary *bool   `json:"primary"`
		Version string  `json:"privateIPAddressVersion"`
		Subnet  *idRef  `json:"subnet"`
		Pools   []idRef `json:"loadBalancerBackendAddressPools"`
	} `json:"properties"`
}

func (c ipConfigSpec) six() bool { return strings.EqualFold(c.Properties.Version, "IPv6") }

// primary is what the i-th configuration of an interface is.
func (c ipConfigSpec) primary(i int) bool {
	if c.Properties.Primary != nil {
		return *c.Properties.Primary
	}
	return i == 0
}

type idRef struct {
	ID string `json:"id"`
}

func (n *nic) configID(c *ipConfig) string { return n.id + "/ipConfigurations/" + c.name }

// address is the interface's primary one.
func (n *nic) address() string {
	for _, c := range n.configs {
		if c.primary {
			return c.address.String()
		}
	}
	return n.configs[0].address.String()
}

func (n *nic) view() any {
	configs := []any{}
	for _, c := range n.configs {
		configs = append(configs, n.configView(c))
	}
	properties := map[string]any{
		"provisioningState": n.state, "resourceGuid": n.guid, "macAddress": n.mac,
		"enableAcceleratedNetworking": n.accelerated, "enableIPForwarding": false,
		"primary": true, "ipConfigurations": configs,
	}
	if n.nsg != "" {
		properties["networkSecurityGroup"] = ref(n.nsg)
	}
	if n.vm != "" {
		properties["virtualMachine"] = ref(n.vm)
	}
	return n.common.view(nicKind, properties)
}

func (n *nic) configView(c *ipConfig) any {
	properties := map[string]any{
		"provisioningState": succeeded, "primary": c.primary, "subnet": ref(c.subnet.id),
		"privateIPAddress": c.address.String(), "privateIPAllocationMethod": "Dynamic", "privateIPAddressVersion": "IPv4",
	}
	if c.address.Is6() {
		properties["privateIPAddressVersion"] = "IPv6"
	}
	if len(c.pools) > 0 {
		pools := []any{}
		for _, id := range slices.Sorted(slices.Values(c.pools)) {
			pools = append(pools, ref(id))
		}
		properties["loadBalancerBackendAddressPools"] = pools
	}
	return map[string]any{"id": n.configID(c), "name": c.name, "type": nicKind + "/ipConfigurations", "properties": properties}
}

// macOf is an address of Microsoft's range.
func macOf(digits string) string {
	return strings.ToUpper("00-0D-3A-" + digits[:2] + "-" + digits[2:4] + "-" + digits[4:6])
}
