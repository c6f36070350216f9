// SPDX-License-Identifier: Apache-2.0

package network

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v8"

	"github.com/karve-dev/karve/provider/azure/internal/armtext"
)

// reservedByAzure is the number of addresses in each range that no node gets: the first four and
// the last.
const reservedByAzure = 5

// IPv6Suffix is the suffix of a node's IPv6 IP configuration.
const IPv6Suffix = "-ipv6"

// usedAddresses returns how many IPv4 addresses are in use. A subnet reports only the ID of an IP
// configuration. IPv6 configurations of karve's nodes are recognized by their name; those of
// other owners count as well.
func usedAddresses(s *armnetwork.SubnetPropertiesFormat) int64 {
	var n int64
	for _, c := range s.IPConfigurations {
		if c != nil && !strings.HasSuffix(strings.ToLower(armtext.Of(c.ID)), IPv6Suffix) {
			n++
		}
	}
	return n
}

// hasIPv6 reports whether a subnet has an IPv6 range.
func hasIPv6(s *armnetwork.SubnetPropertiesFormat) bool {
	return slices.ContainsFunc(ranges(s), func(r netip.Prefix) bool { return r.Addr().Is6() })
}

// ranges returns the address ranges of a subnet that can be parsed.
func ranges(s *armnetwork.SubnetPropertiesFormat) []netip.Prefix {
	if s == nil {
		return nil
	}
	prefixes := armtext.Sorted(s.AddressPrefixes)
	if len(prefixes) == 0 {
		prefixes = []string{armtext.Of(s.AddressPrefix)}
	}
	var out []netip.Prefix
	for _, prefix := range prefixes {
		if r, err := netip.ParsePrefix(prefix); err == nil {
			out = append(out, r)
		}
	}
	return out
}

// addressesIn returns how many IPv4 addresses nodes can have in a subnet; zero when the subnet
// has no IPv4 range that can be parsed.
func addressesIn(s *armnetwork.SubnetPropertiesFormat) int64 {
	var size int64
	for _, r := range ranges(s) {
		if r.Addr().Is4() {
			size += max(0, int64(1)<<(32-r.Bits())-reservedByAzure)
		}
	}
	return size
}
