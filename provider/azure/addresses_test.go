// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure"
)

// addressesOf returns the quota name of a subnet, by its ID.
func addressesOf(id string) string {
	part := strings.Split(strings.ToLower(id), "/")
	return offering.AddressQuota + part[len(part)-3] + "/" + part[len(part)-1]
}

func (r *region) launchAll(t *testing.T, p *azure.Provider, claims ...provider.Claim) (ids []string) {
	t.Helper()
	for _, c := range claims {
		in, _ := run(t, p, c)
		ids = append(ids, in.ProviderID)
	}
	return ids
}

// A subnet's addresses are planned like quota, so that Azure never has to refuse a node for lack
// of one.
//
// Rule NETWORK-1.
func TestAddressesAreCountedAsQuota(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1, SubnetPrefix: "10.0.0.0/29"}).small() // three for nodes
	p := r.provider(t)
	quotaName := addressesOf(r.SubnetID())
	want := func(what string, left int64) {
		t.Helper()
		if got, known := snapshot(t, p).QuotaLeft[quotaName]; got != left || !known {
			t.Errorf("%s: %d addresses are left (known: %v), want %d", what, got, known, left)
		}
	}
	want("at first", 3)
	one := onDemand("Standard_D2s_v5", "eastus-1")
	ids := r.launchAll(t, p, claim("a", one), claim("b", one), claim("c", spot("Standard_D2s_v5", "eastus-2")))
	want("three VMs run", 0)

	_, err := p.Launch(t.Context(), claim("d", one, onDemand("Standard_E2s_v5", "eastus-1")))
	var capacity *provider.CapacityError
	if !errors.As(err, &capacity) || capacity.Refused[0].Reason != "Network" || !strings.Contains(capacity.Refused[0].Detail, "addresses of subnet") {
		t.Errorf("a fourth: %v", err)
	}
	if refused := r.Ledger().Refused; refused != 0 {
		t.Errorf("Azure had to refuse %d requests", refused)
	}
	r.end(t, p, ids[0])
	want("one is gone", 1)
	run(t, p, claim("d", one))
	want("another came", 0)
}

func (r *region) end(t *testing.T, p *azure.Provider, id string) {
	t.Helper()
	for range 1000 {
		if err := p.Terminate(t.Context(), id); errors.Is(err, provider.ErrNotFound) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatalf("%s does not go", id)
}

// Without an overlay each pod has an address of its own in the subnet.
//
// Rule NETWORK-1.
func TestNodesOfASubnetTakeAddressesForTheirPods(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1, SubnetPrefix: "10.0.0.0/26"}).small() // 59
	r.options.NetworkPlugin = "azure"
	p := r.provider(t)
	run(t, p, claim("a", onDemand("Standard_D2s_v5", "eastus-1")))
	if left := snapshot(t, p).QuotaLeft[addressesOf(r.SubnetID())]; left != 29 {
		t.Errorf("%d addresses are left after a node of 30 pods in 59", left)
	}
	if _, err := p.Launch(t.Context(), claim("b", onDemand("Standard_D2s_v5", "eastus-1"))); !errors.As(err, new(*provider.CapacityError)) {
		t.Errorf("a second node: %v", err)
	}
	small := newRegion(t, azureemulator.Options{SystemNodes: -1, SubnetPrefix: "10.0.0.0/28"}).small()
	small.options.NetworkPlugin = "azure"
	var wrong *azure.SubnetError
	if err := small.provider(t).CheckSubnet(t.Context(), "", 0); !errors.As(err, &wrong) || wrong.Reason != azure.SubnetTooSmall {
		t.Errorf("a subnet of eleven addresses: %v", err)
	}
	if err := small.provider(t).CheckSubnet(t.Context(), "", 10); err != nil {
		t.Errorf("a node of ten pods in a subnet of eleven addresses: %v", err)
	}
	if err := p.CheckSubnet(t.Context(), "", 60); !errors.As(err, &wrong) || wrong.Reason != azure.SubnetTooSmall {
		t.Errorf("a node of 60 pods in a subnet of 59 addresses: %v", err)
	}
}

// Rule NETWORK-2.
func TestSubnetThatMayNotBeJoined(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small()
	r.fault(t, azureemulator.Fault{Method: "PUT", Path: vmPath, Status: 403, Code: "LinkedAuthorizationFailed",
		Message: "The client 'c' with object id 'o-1' has permission to perform action 'Microsoft.Compute/virtualMachines/write' on scope '/vm'; however, it does not have permission to perform action(s) 'Microsoft.Network/virtualNetworks/subnets/join/action' on the linked scope(s) '/the/subnet' (respectively) or the linked scope(s) are invalid."})
	p := r.provider(t)
	if err := p.CheckSubnet(t.Context(), "", 0); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Launch(t.Context(), claim("a", onDemand("Standard_D2s_v5", "eastus-1"))); err == nil || errors.As(err, new(*provider.CapacityError)) {
		t.Errorf("launching: %v", err)
	}
	var wrong *azure.SubnetError
	err := p.CheckSubnet(t.Context(), "", 0)
	if !errors.As(err, &wrong) || wrong.Reason != azure.SubnetJoinDenied || !strings.Contains(wrong.Detail, `assign the role "Network Contributor"`) || !strings.Contains(wrong.Detail, "/the/subnet") {
		t.Errorf("the subnet: %v", err)
	}
}
