// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider"
)

// An evicted offering is moved to the end for ten minutes, is used all the same if there is no
// other, and keeps its place on demand and in other zones.
//
// Rule INTERRUPTION-9.
func TestReclaimedOfferingsComeLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1, TimeScale: 1, Seed: 1}).small()
		p := r.provider(t)
		cheap, dear := spot("Standard_D4s_v5", "eastus-1"), spot("Standard_D8s_v5", "eastus-1")
		launches := func(name, when string, want offering.Ref, offerings ...offering.Ref) {
			t.Helper()
			id, err := r.up(t, p, claim(name, offerings...))
			if err != nil {
				t.Fatal(err)
			}
			in, err := p.Get(t.Context(), id)
			if err != nil || in.Type != want.Type || in.Zone != want.Zone || in.CapacityType != want.CapacityType {
				t.Errorf("%s: launched %s in %s (%s), %v", when, in.Type, in.Zone, in.CapacityType, err)
			}
		}
		launches("a", "before", cheap, cheap, dear)
		p.SpotReclaimed(cheap)
		launches("b", "after an eviction", dear, cheap, dear)
		launches("c", "where there is no other", cheap, cheap)
		launches("d", "elsewhere", spot("Standard_D4s_v5", "eastus-2"), spot("Standard_D4s_v5", "eastus-2"), dear)
		launches("e", "on demand", onDemand("Standard_D4s_v5", "eastus-1"), onDemand("Standard_D4s_v5", "eastus-1"), dear)
		p.SpotReclaimed(dear)
		launches("f", "when all lose VMs", cheap, cheap, dear)
		time.Sleep(10 * time.Minute)
		launches("g", "ten minutes later", cheap, cheap, dear)
		p.SpotReclaimed(onDemand("Standard_D4s_v5", "eastus-1"))
		launches("h", "what is not spot is not evicted", cheap, cheap, dear)
	})
}

// A policy's refusal is reported, with the next step, until a node of the class is launched.
//
// Rule REFUSAL-9. Rule AKS-5.
func TestPolicyDenialIsTold(t *testing.T) {
	eachMaker(t, func(t *testing.T, aks bool) {
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1, TimeScale: 1, Seed: 1}).small().madeBy(aks)
		p := r.provider(t)
		deny := func() {
			t.Helper()
			r.fault(t, azureemulator.Fault{Method: "PUT", Path: vmPath, Status: 403, Code: "RequestDisallowedByPolicy",
				Message: "Resource 'x' was disallowed by policy. Policy identifiers: '[{\"policyAssignment\":{\"name\":\"allowed-sizes\"}}]'."})
			if in, err := toTheEnd(t, p, claim("a", onDemand("Standard_D8s_v5", "eastus-1"))); err == nil {
				t.Fatalf("launched %+v", in)
			}
		}
		if denial := p.PolicyDenial("default"); denial != "" {
			t.Errorf("before any launch: %s", denial)
		}
		deny()
		for _, want := range []string{"Standard_D8s_v5 in eastus-1", "RequestDisallowedByPolicy", "exempt the node resource group", "allowed-sizes"} {
			if denial := p.PolicyDenial("default"); !strings.Contains(denial, want) {
				t.Errorf("%q does not mention %s", denial, want)
			}
		}
		if _, err := r.up(t, p, provider.Claim{Name: "b", UID: "b", Class: "default", Offerings: []offering.Ref{onDemand("Standard_D4s_v5", "eastus-1")}}); err != nil {
			t.Fatal(err)
		}
		if denial := p.PolicyDenial("default"); denial != "" {
			t.Errorf("after a launch: %s", denial)
		}
		time.Sleep(15 * time.Minute) // the offering is no longer blocked
		deny()
		time.Sleep(time.Hour)
		if denial := p.PolicyDenial("default"); denial != "" {
			t.Errorf("an hour later: %s", denial)
		}
	})
}
