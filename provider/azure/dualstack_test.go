// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/provider"
)

// sixToo makes the region's cluster dual-stack: its subnet has an IPv6 range, and its load
// balancer has pools for IPv6.
func (r *region) sixToo(t *testing.T) {
	t.Helper()
	if err := r.Network.AddIPv6(r.SubnetID(), "fd00:db8:deca::/64"); err != nil {
		t.Fatal(err)
	}
	if err := r.Network.SetBackendPools("kubernetes", "aksOutboundBackendPool", "kubernetes", "aksOutboundBackendPool-ipv6"); err != nil {
		t.Fatal(err)
	}
}

// families returns the addresses of all interfaces, by their pools.
func (r *region) families(t *testing.T) (four, six []string) {
	t.Helper()
	path := "/subscriptions/" + r.SubscriptionID() + "/resourceGroups/" + r.NodeResourceGroup() + "/providers/Microsoft.Network/networkInterfaces"
	var list struct {
		Value []struct {
			Properties struct {
				IPConfigurations []struct {
					Properties struct {
						Primary                         bool
						PrivateIPAddress                netip.Addr
						LoadBalancerBackendAddressPools []struct{ ID string }
					}
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(r.ask(t, http.MethodGet, path, "")), &list); err != nil {
		t.Fatal(err)
	}
	for _, nic := range list.Value {
		for _, c := range nic.Properties.IPConfigurations {
			var pools []string
			for _, pool := range c.Properties.LoadBalancerBackendAddressPools {
				pools = append(pools, pool.ID[strings.LastIndex(pool.ID, "/")+1:])
			}
			text := fmt.Sprint(c.Properties.Primary, pools)
			if c.Properties.PrivateIPAddress.Is6() {
				six = append(six, text)
			} else {
				four = append(four, text)
			}
		}
	}
	return four, six
}

// A subnet with an IPv6 range gives each node an IPv6 address, in the pools of that family; it
// does not count as an IPv4 address. If pods have their addresses from the subnet, nodes get no
// IPv6 address.
//
// Rule NETWORK-5.
func TestDualStack(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1, SubnetPrefix: "10.0.0.0/29"}).small() // three of IPv4
	r.sixToo(t)
	p := r.provider(t)
	r.launchAll(t, p, claim("a", onDemand("Standard_D2s_v5", "eastus-1")), claim("b", onDemand("Standard_D2s_v5", "eastus-1")))
	four, six := r.families(t)
	if got, want := fmt.Sprint(four), "[true [aksOutboundBackendPool kubernetes] true [aksOutboundBackendPool kubernetes]]"; got != want {
		t.Errorf("of IPv4: %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(six), "[false [aksOutboundBackendPool-ipv6] false [aksOutboundBackendPool-ipv6]]"; got != want {
		t.Errorf("of IPv6: %s, want %s", got, want)
	}
	s, err := r.provider(t).Catalog(t.Context(), "default") // by a provider without launches
	if err != nil {
		t.Fatal(err)
	}
	for quotaName, left := range s.QuotaLeft {
		if strings.Contains(quotaName, "aks-subnet") && left != 1 {
			t.Errorf("%d addresses are left by %s, want one", left, quotaName)
		}
	}
	r.launchAll(t, p, claim("c", onDemand("Standard_D2s_v5", "eastus-1")))
	if _, err := p.Launch(t.Context(), claim("d", onDemand("Standard_D2s_v5", "eastus-1"))); !errors.As(err, new(*provider.CapacityError)) {
		t.Errorf("a fourth: %v", err)
	}

	pods := newRegion(t, azureemulator.Options{SystemNodes: -1}).small()
	pods.sixToo(t)
	pods.options.NetworkPlugin = "azure"
	pods.launchAll(t, pods.provider(t), claim("a", onDemand("Standard_D2s_v5", "eastus-1")))
	if _, six := pods.families(t); len(six) > 0 {
		t.Errorf("beside addresses for pods, of IPv6: %v", six)
	}
}
