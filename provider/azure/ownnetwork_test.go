// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/azureemulator/node"
	"github.com/karve-dev/karve/provider/azure"
)

// Whether karve may join virtual machines to a subnet is checked before the first launch, and
// again whenever the class is checked.
//
// Rule NETWORK-2.
func TestJoinIsAskedBeforehand(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small()
	p := r.provider(t)
	if err := p.CheckSubnet(t.Context(), "", 0); err != nil {
		t.Fatal(err)
	}
	if err := r.Network.SetJoin(r.SubnetID(), false); err != nil {
		t.Fatal(err)
	}
	var wrong *azure.SubnetError
	err := p.CheckSubnet(t.Context(), "", 0)
	if !errors.As(err, &wrong) || wrong.Reason != azure.SubnetJoinDenied || !strings.Contains(wrong.Detail, `assign the role "Network Contributor"`) ||
		!strings.Contains(wrong.Detail, "subnets/join/action") || !strings.Contains(wrong.Detail, r.SubnetID()) {
		t.Errorf("without the right: %v", err)
	}
	if err := r.Network.SetJoin(r.SubnetID(), true); err != nil {
		t.Fatal(err)
	}
	if err := p.CheckSubnet(t.Context(), "", 0); err != nil {
		t.Errorf("once it is given: %v", err)
	}
}

// If the check fails, launches go on.
//
// Rule NETWORK-2.
func TestJoinThatCannotBeAsked(t *testing.T) {
	for name, fault := range map[string]azureemulator.Fault{
		"it may not be asked": {Status: http.StatusForbidden, Code: "AuthorizationFailed"},
		"nobody answers":      {Status: http.StatusServiceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small()
			fault.Method, fault.Path, fault.Times = "GET", "/permissions$", -1
			r.fault(t, fault)
			if err := r.Network.SetJoin(r.SubnetID(), false); err != nil {
				t.Fatal(err)
			}
			p := r.provider(t)
			if err := p.CheckSubnet(t.Context(), "", 0); err != nil {
				t.Errorf("the subnet: %v", err)
			}
			if _, err := p.Launch(t.Context(), claim("a", onDemand("Standard_D2s_v5", "eastus-1"))); err == nil {
				t.Error("a VM was made where none may be")
			}
			if err := p.CheckSubnet(t.Context(), "", 0); !errors.As(err, new(*azure.SubnetError)) {
				t.Errorf("the subnet, after a refusal: %v", err)
			}
		})
	}
}

// Security group and load balancers may have names chosen by the user.
//
// Rule NETWORK-6.
func TestNetworkOfOnesOwn(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small()
	subnet, err := r.Network.AddSubnet(r.NodeResourceGroup(), "mine", "nodes", "10.9.0.0/24")
	if err != nil {
		t.Fatal(err)
	}
	r.options.VNetSubnetID = subnet
	r.options.SecurityGroupID = r.Network.AddSecurityGroup("agents")
	r.Network.AddLoadBalancer("front", "workers")
	r.options.LoadBalancers = []string{"Front"}
	if _, err := r.up(t, r.provider(t), claim("a", onDemand("Standard_D2s_v5", "eastus-1"))); err != nil {
		t.Fatal(err)
	}
	nics := r.ask(t, http.MethodGet, "/subscriptions/"+r.SubscriptionID()+"/resourceGroups/"+r.NodeResourceGroup()+"/providers/Microsoft.Network/networkInterfaces", "")
	for _, want := range []string{"/networkSecurityGroups/agents", "/loadBalancers/front/backendAddressPools/workers"} {
		if !strings.Contains(nics, want) {
			t.Errorf("%s is missing in %s", want, nics)
		}
	}
	if strings.Contains(nics, "aksOutboundBackendPool") {
		t.Errorf("it is in AKS's pools too: %s", nics)
	}
}

// If the list of load balancers is empty, nodes join no pool.
//
// Rule NETWORK-6.
func TestNoLoadBalancer(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small()
	r.options.LoadBalancers = []string{}
	if _, err := r.up(t, r.provider(t), claim("a", onDemand("Standard_D2s_v5", "eastus-1"))); err != nil {
		t.Fatal(err)
	}
	nics := r.ask(t, http.MethodGet, "/subscriptions/"+r.SubscriptionID()+"/resourceGroups/"+r.NodeResourceGroup()+"/providers/Microsoft.Network/networkInterfaces", "")
	if strings.Contains(nics, "backendAddressPools") {
		t.Errorf("the node is in a pool: %s", nics)
	}
}

// The identity needs no permission to read the network if its GUID is given.
//
// Rule SETTING-3.
func TestGUIDOfTheNetworkMayBeGiven(t *testing.T) {
	for _, guid := range []string{"", "6c1f6471-1bf0-4dda-aec3-cb9272f09590"} {
		guest := bootRecorder{make(chan azureemulator.VM, 1)}
		r := newRegion(t, azureemulator.Options{SystemNodes: -1, Guest: guest}).small()
		r.fault(t, azureemulator.Fault{Method: "GET", Path: "/virtualNetworks/[^/]+$", Status: 403, Code: "AuthorizationFailed", Message: "may not read"})
		r.options.VNetGUID = guid
		p, c := r.provider(t), claim("a", onDemand("Standard_D2s_v5", "eastus-1"))
		if guid == "" {
			if _, err := p.Launch(t.Context(), c); err == nil || !strings.Contains(err.Error(), "reading virtual network") {
				t.Errorf("without the right to read the network, and not given its GUID: %v", err)
			}
			continue
		}
		run(t, p, c)
		payload, err := node.ReadPayload(t.Context(), (<-guest.booted).CustomData)
		if err != nil || payload.Kubelet.Labels["kubernetes.azure.com/nodenetwork-vnetguid"] != guid {
			t.Errorf("the node got GUID %q, %v", payload.Kubelet.Labels["kubernetes.azure.com/nodenetwork-vnetguid"], err)
		}
	}
}

// A default subnet of another subscription is not looked up in karve's subscription.
//
// Rule NETWORK-2.
func TestSubnetOfAnotherSubscription(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small()
	r.options.VNetSubnetID = strings.Replace(r.SubnetID(), r.options.SubscriptionID, "11111111-1bf0-4dda-aec3-cb9272f09590", 1)
	var wrong *azure.SubnetError
	err := r.provider(t).CheckSubnet(t.Context(), "", 0)
	if !errors.As(err, &wrong) || wrong.Reason != azure.SubnetIDInvalid || !strings.Contains(wrong.Detail, "in subscription 11111111-") {
		t.Errorf("a subnet of another subscription: %v", err)
	}
	r.options.VNetSubnetID = strings.Replace(r.SubnetID(), r.options.SubscriptionID, strings.ToUpper(r.options.SubscriptionID), 1)
	if err := r.provider(t).CheckSubnet(t.Context(), "", 0); err != nil {
		t.Errorf("our own subscription in capitals: %v", err)
	}
}

// A resource that Azure does not find is read again by the next launch, some seconds later;
// until then the claim shows Azure's error.
//
// Rule REFUSAL-5.
func TestSecurityGroupIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1, TimeScale: 1}).small()
		subnet, err := r.Network.AddSubnet(r.NodeResourceGroup(), "mine", "nodes", "10.9.0.0/24")
		if err != nil {
			t.Fatal(err)
		}
		r.options.VNetSubnetID = subnet
		p := r.provider(t)
		if _, err := r.up(t, p, claim("a", onDemand("Standard_D2s_v5", "eastus-1"))); err != nil {
			t.Fatal(err)
		}
		for _, g := range r.Network.SecurityGroups() {
			r.Network.RemoveSecurityGroup(g)
		}
		r.Network.AddSecurityGroup("aks-agentpool-87654321-nsg")
		b := claim("b", onDemand("Standard_D2s_v5", "eastus-1"))
		in, err := p.Launch(t.Context(), b)
		if err != nil || in.ProviderID != "" || len(in.Refused) != 1 || in.Refused[0].Code != "InvalidResourceReference" || in.RetryAfter < 10*time.Second {
			t.Errorf("the first creation after that: %+v, %v", in, err)
		}
		before := r.Ledger().ByOperation["VirtualMachines.CreateOrUpdate"]
		if _, err := r.up(t, p, b); err != nil {
			t.Fatal(err)
		}
		if asked := r.Ledger().ByOperation["VirtualMachines.CreateOrUpdate"] - before; asked != 1 {
			t.Errorf("it took %d more creations", asked)
		}
		if nics := r.ask(t, http.MethodGet, "/subscriptions/"+r.SubscriptionID()+"/resourceGroups/"+r.NodeResourceGroup()+"/providers/Microsoft.Network/networkInterfaces", ""); !strings.Contains(nics, "aks-agentpool-87654321-nsg") {
			t.Errorf("the new group is missing in %s", nics)
		}
	})
}
