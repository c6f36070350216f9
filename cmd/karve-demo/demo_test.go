// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/netip"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v8"

	"github.com/karve-dev/karve/azureemulator"
)

// The scenario tells what happens when a subnet is full. Workloads that users bring to the
// bare demo get the subnet that AKS gives a cluster.
//
// Rule DEMO-1.
func TestBareDemoHasAnOrdinarySubnet(t *testing.T) {
	for bare, want := range map[bool]int{true: 16, false: 27} {
		server, err := azureemulator.Start(t.Context(), demoOptions{Bare: bare}.azure())
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		if got := subnetBits(t, server); got != want {
			t.Errorf("bare %v: the subnet is a /%d, want /%d", bare, got, want)
		}
		scarce := false
		for _, u := range server.Capacity.Usages() {
			scarce = scarce || u.Limit == 20
		}
		if scarce == bare {
			t.Errorf("bare %v: a family is scarce: %v", bare, scarce)
		}
	}
}

// TestSubnetOfTheBareDemo: a subnet with few addresses is given with --bare, and what Azure would not
// take is refused before anything starts.
func TestSubnetOfTheBareDemo(t *testing.T) {
	server, err := azureemulator.Start(t.Context(), demoOptions{Bare: true, Subnet: "10.224.0.0/27"}.azure())
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if got := subnetBits(t, server); got != 27 {
		t.Errorf("the subnet is a /%d, want /27", got)
	}
	for subnet, bare := range map[string]bool{"10.224.0.0/27": false, "10.224.0.0": true, "10.224.0.0/30": true, "10.224.0.1/27": true, "fd00::/64": true, "many": true} {
		if err := (demoOptions{Bare: bare, Subnet: subnet}).checkSubnet(); err == nil {
			t.Errorf("--subnet %s is accepted with --bare=%v", subnet, bare)
		}
	}
	if err := (demoOptions{Bare: true, Subnet: "10.224.0.0/27"}).checkSubnet(); err != nil {
		t.Error(err)
	}
}

// subnetBits is the length of the nodes' subnet's prefix, as Azure tells it.
func subnetBits(t *testing.T, server *azureemulator.Server) int {
	t.Helper()
	id, err := arm.ParseResourceID(server.SubnetID())
	if err != nil {
		t.Fatal(err)
	}
	credential, err := server.Credential()
	if err != nil {
		t.Fatal(err)
	}
	subnets, err := armnetwork.NewSubnetsClient(id.SubscriptionID, credential, server.ClientOptions())
	if err != nil {
		t.Fatal(err)
	}
	subnet, err := subnets.Get(t.Context(), id.ResourceGroupName, id.Parent.Name, id.Name, nil)
	if err != nil {
		t.Fatal(err)
	}
	prefix, err := netip.ParsePrefix(*subnet.Properties.AddressPrefix)
	if err != nil {
		t.Fatal(err)
	}
	return prefix.Bits()
}
