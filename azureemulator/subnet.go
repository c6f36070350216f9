// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
)

// subnet hands out the addresses of its prefix. Azure keeps the first four and
// the last one for itself.
type subnet struct {
	id, name string
	prefix   netip.Prefix
	six      netip.Prefix          // of IPv6; the zero Prefix when there is none
	last6    netip.Addr            // given out
	taken6   int                   // of the owners
	nsg      string                // id, or empty
	service  string                // it is delegated to, or empty
	closed   bool                  // clients may not join it
	owners   map[netip.Addr]string // address → id of the IP configuration
	// lingering are those of owners that are gone.
	lingering map[netip.Addr]bool
	// lowest is not above the lowest free address.
	lowest netip.Addr
}

const reservedAtStart, reservedAtEnd = 4, 1

func newSubnet(id, name string, prefix netip.Prefix) *subnet {
	n := &subnet{id: id, name: name, prefix: prefix, owners: map[netip.Addr]string{}, lingering: map[netip.Addr]bool{}, lowest: prefix.Addr()}
	for range reservedAtStart {
		n.lowest = n.lowest.Next()
	}
	return n
}

// size is how many addresses VMs can have.
func (n *subnet) size() int {
	return 1<<(32-n.prefix.Bits()) - reservedAtStart - reservedAtEnd
}

// free is how many of them are left. IPv6 does not run out.
func (n *subnet) free() int { return n.size() - (len(n.owners) - n.taken6) }

// take gives owner the lowest free address. The caller has seen that free > 0.
func (n *subnet) take(owner string) netip.Addr {
	for n.owners[n.lowest] != "" {
		n.lowest = n.lowest.Next()
	}
	n.owners[n.lowest] = owner
	return n.lowest
}

// take6 gives owner an address of IPv6 that was never given out before.
func (n *subnet) take6(owner string) netip.Addr {
	n.last6 = n.last6.Next()
	n.owners[n.last6] = owner
	n.taken6++
	return n.last6
}

func (n *subnet) release(a netip.Addr) {
	delete(n.owners, a)
	if a.Is6() {
		n.taken6--
		return
	}
	if a.Less(n.lowest) {
		n.lowest = a
	}
}

func (n *subnet) addSix(six netip.Prefix) {
	n.six, n.last6 = six, six.Addr()
	for range reservedAtStart - 1 {
		n.last6 = n.last6.Next()
	}
}

// subnetPrefix reads a range that leaves room for at least three machines.
func subnetPrefix(text string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return prefix, fmt.Errorf("reading a subnet's prefix: %w", err)
	}
	if !prefix.Addr().Is4() || prefix.Bits() > 29 {
		return prefix, fmt.Errorf("the prefix %s is not an IPv4 range of at least eight addresses", text)
	}
	return prefix.Masked(), nil
}

// A grant is what one role lets a client do, as Microsoft.Authorization shows it.
type grant struct {
	Actions    []string `json:"actions"`
	NotActions []string `json:"notActions"`
}

// grants are those of the client on a subnet: to do all but give roles to others; and where
// it may not join, to read everything and to make machines.
func (n *subnet) grants() []grant {
	if n.closed {
		return []grant{{[]string{"*/read"}, []string{}}, {[]string{"Microsoft.Compute/*"}, []string{}}}
	}
	return []grant{{[]string{"*"}, []string{"Microsoft.Authorization/*/Delete", "Microsoft.Authorization/*/Write"}}}
}

func (n *subnet) view() any {
	configurations := []any{}
	for _, a := range slices.SortedFunc(maps.Keys(n.owners), netip.Addr.Compare) {
		configurations = append(configurations, ref(n.owners[a]))
	}
	properties := map[string]any{
		"provisioningState": succeeded, "addressPrefix": n.prefix.String(),
		"ipConfigurations": configurations, "delegations": []any{}, "serviceEndpoints": []any{},
	}
	if n.six.IsValid() {
		delete(properties, "addressPrefix")
		properties["addressPrefixes"] = []string{n.prefix.String(), n.six.String()}
	}
	if n.nsg != "" {
		properties["networkSecurityGroup"] = ref(n.nsg)
	}
	if n.service != "" {
		properties["delegations"] = []any{map[string]any{"name": "delegation", "properties": map[string]string{"serviceName": n.service}}}
	}
	return map[string]any{
		"id": n.id, "name": n.name, "type": "Microsoft.Network/virtualNetworks/subnets", "properties": properties,
	}
}
