// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure"
)

// everySize returns offerings of some sizes in one zone.
func everySize() (offerings []offering.Ref) {
	for _, series := range []string{"D%ds_v5", "E%ds_v5", "D%dds_v5", "E%dds_v5", "D%das_v5"} {
		for _, cores := range []int{2, 4, 8, 16} {
			offerings = append(offerings, onDemand("Standard_"+fmt.Sprintf(series, cores), "eastus-1"))
		}
	}
	return offerings
}

// twoClasses are default and another of the same shape.
func (r *region) twoClasses() *region {
	r.options.Classes = azure.ClassesFunc(func(_ context.Context, name string) (*v1beta1.AKSNodeClass, error) {
		c := r.class.Load().DeepCopy()
		c.Name = name
		return c, nil
	})
	return r
}

func blocked(t *testing.T, p *azure.Provider, class string) (n int, why string) {
	t.Helper()
	s, err := p.Catalog(t.Context(), class)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range s.Types {
		for _, o := range k.Offerings {
			if o.Unavailable != "" {
				n, why = n+1, o.Unavailable
			}
		}
	}
	return n, why
}

// A refusal that concerns a node class blocks the class's own offerings, and no other's. An
// unknown refusal of three sizes pauses the class with a reason; other sizes are tried then.
//
// Rule REFUSAL-6. Rule AKS-5.
func TestWrongClassHarmsOnlyItself(t *testing.T) {
	policy := azureemulator.Fault{Status: 403, Code: "RequestDisallowedByPolicy", Message: "Resource 'x' was disallowed by policy: tag team is missing."}
	feature := azureemulator.Fault{Status: 400, Code: "InvalidParameter",
		Message: "The property 'securityProfile.encryptionAtHost' is not valid because the feature is not enabled for this subscription's offers."}
	for name, test := range map[string]struct {
		fault     azureemulator.Fault
		aks       bool
		most      int // requests within five minutes
		condition string
	}{
		"policy":                      {policy, false, 20, ""},
		"feature":                     {feature, false, 9, azure.ClassRefused},
		"policy, where AKS makes it":  {policy, true, 20, ""},
		"feature, where AKS makes it": {feature, true, 9, azure.ClassRefused},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1, TimeScale: 1, Seed: 1}).small().twoClasses().madeBy(test.aks)
				test.fault.Method, test.fault.Path, test.fault.Times = "PUT", "/virtualMachines/[^/]*bad", -1
				r.fault(t, test.fault)
				p := r.provider(t)
				before, _ := blocked(t, p, "good")
				bad := provider.Claim{Name: "bad", UID: "bad", Class: "bad", Offerings: everySize()}
				var reason, detail string // of its last rest
				for range 50 {
					if in, _ := p.Launch(t.Context(), bad); in.State == provider.Running {
						t.Fatal("launched")
					}
					if now, why := p.ClassPause("bad"); now != "" {
						reason, detail = now, why
					}
					time.Sleep(5 * time.Second)
				}
				if n := r.requested(); n == 0 || n > test.most {
					t.Errorf("%d requests for VMs", n)
				}
				if now, why := blocked(t, p, "good"); now != before {
					t.Errorf("the other class lost %d offerings: %s", now-before, why)
				}
				if now, _ := blocked(t, p, "bad"); now == before {
					t.Error("the class has all its offerings")
				}
				if reason != test.condition || reason != "" && (!strings.Contains(detail, "encryptionAtHost") || !strings.Contains(detail, "correct what the AKSNodeClass asks for")) {
					t.Errorf("the class says %s: %s", reason, detail)
				}
				if _, err := r.up(t, p, provider.Claim{Name: "fine", UID: "fine", Class: "good", Offerings: everySize()}); err != nil {
					t.Errorf("the other class: %v", err)
				}
				r.ClearFaults()
				time.Sleep(11 * time.Minute)
				if _, err := r.up(t, p, bad); err != nil {
					t.Errorf("after its rest: %v", err)
				}
				if reason, _ := p.ClassPause("bad"); reason != "" {
					t.Errorf("it still says %s", reason)
				}
			})
		})
	}
}

// If the sizes are the cause after all, the available one is found: after each pause twice as
// many are tried, and none of them twice, in any zone.
//
// Rule REFUSAL-6.
func TestSizeThatCanBeHadIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1, TimeScale: 1, Seed: 1}).small()
		offerings := everySize()
		for _, c := range everySize() {
			c.Zone = "eastus-2"
			offerings = append(offerings, c)
		}
		slices.SortStableFunc(offerings, func(a, b offering.Ref) int { return strings.Compare(a.Type, b.Type) })
		const wrong = 19 // of 20 sizes, or fewer where one is tried in two zones at first
		r.fault(t, azureemulator.Fault{Method: "PUT", Path: "/virtualMachines/[^/]+$", Status: 400, Code: "InvalidParameter", Message: "The value of a property is not allowed.", Times: wrong})
		sent := r.record()
		p := r.provider(t)
		start, rests, resting := time.Now(), 0, false
		for {
			in, err := p.Launch(t.Context(), claim("a", offerings...))
			if err == nil && in.Type != "" {
				break
			}
			if time.Since(start) > time.Hour {
				t.Fatalf("not found within an hour, after %d requests: %v", len(sent.put), err)
			}
			reason, detail := p.ClassPause("default")
			if reason != "" && !resting {
				rests++
				if sizes := []int{0, 3, 9}[min(rests, 2)]; !strings.Contains(detail, fmt.Sprintf("VMs of %d sizes were refused for the same reason", sizes)) {
					t.Errorf("rest %d after %d requests: %s", rests, len(sent.put), detail)
				}
			}
			resting = reason != ""
			time.Sleep(5 * time.Second)
		}
		if took := time.Since(start); rests != 2 || took > 8*time.Minute {
			t.Errorf("it took %s and %d rests", took, rests)
		}
		tried := map[string]int{}
		for i, put := range sent.put {
			size := put["properties"].(map[string]any)["hardwareProfile"].(map[string]any)["vmSize"].(string)
			if tried[size]++; i >= 6 && tried[size] > 1 {
				t.Errorf("request %d is for %s again", i, size)
			}
		}
	})
}

// eachMaker runs a test in a bubble for each backend. AKS accepts machines before it asks
// Compute, and reports Compute's refusal as their failure.
func eachMaker(t *testing.T, test func(t *testing.T, aks bool)) {
	for name, aks := range map[string]bool{"Compute makes it": false, "AKS makes it": true} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { test(t, aks) }) })
	}
}

func (r *region) madeBy(aks bool) *region {
	if aks {
		r.aks(1)
	}
	return r
}

// requested returns how many virtual machines were requested.
func (r *region) requested() int {
	done := r.Ledger().ByOperation
	if r.options.AKSMachines.CreateNodes {
		return done["Machines.CreateOrUpdate"]
	}
	return done["VirtualMachines.CreateOrUpdate"]
}

// toTheEnd launches until the virtual machine runs or is refused.
func toTheEnd(t *testing.T, p *azure.Provider, c provider.Claim) (provider.Instance, error) {
	t.Helper()
	for range 1000 {
		in, err := p.Launch(t.Context(), c)
		if err != nil || in.State == provider.Running {
			return in, err
		}
		time.Sleep(in.RetryAfter)
	}
	t.Fatalf("claim %s comes to no end", c.Name)
	return provider.Instance{}, nil
}

// A missing permission pauses the node class for five minutes, with the role to assign.
//
// Rule REFUSAL-7. Rule AKS-5.
func TestDeniedClassPauses(t *testing.T) {
	eachMaker(t, func(t *testing.T, aks bool) {
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1, TimeScale: 1, Seed: 1}).small().twoClasses().madeBy(aks)
		r.fault(t, azureemulator.Fault{Method: "PUT", Path: "/virtualMachines/[^/]*bad", Status: 403, Code: "LinkedAuthorizationFailed", Times: -1,
			Message: "The client 'c' with object id 'o-1' has permission to perform action 'Microsoft.Compute/virtualMachines/write' on scope '/vm'; however, it does not have permission to perform action(s) 'Microsoft.ManagedIdentity/userAssignedIdentities/assign/action' on the linked scope(s) '/the/identity' (respectively) or the linked scope(s) are invalid."})
		p := r.provider(t)
		for i := range 250 {
			_, err := toTheEnd(t, p, provider.Claim{Name: "bad", UID: fmt.Sprint(i), Class: "bad", Offerings: everySize()})
			if err == nil || i > 0 && !errors.As(err, new(*provider.NotReadyError)) || !strings.Contains(err.Error(), "Managed Identity Operator") {
				t.Fatalf("launch %d: %v", i, err)
			}
			time.Sleep(time.Second)
		}
		if n := r.requested(); n != 1 {
			t.Errorf("%d requests for VMs, want one", n)
		}
		if reason, detail := p.ClassPause("bad"); reason != azure.ClassDenied || !strings.Contains(detail, "o-1 on /the/identity") {
			t.Errorf("the class says %s: %s", reason, detail)
		}
		if reason, _ := p.ClassPause("good"); reason != "" {
			t.Errorf("the other class says %s", reason)
		}
		r.ClearFaults()
		time.Sleep(51 * time.Second)
		if _, err := r.up(t, p, provider.Claim{Name: "bad", UID: "x", Class: "bad", Offerings: everySize()}); err != nil {
			t.Errorf("five minutes later: %v", err)
		}
	})
}

// A permission that is denied right after a launch of the class is still propagating, and pauses
// no class.
//
// Rule REFUSAL-7. Rule AKS-5.
func TestPropagatingRolePausesNothing(t *testing.T) {
	eachMaker(t, func(t *testing.T, aks bool) {
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1, TimeScale: 1, Seed: 1}).small().madeBy(aks)
		p := r.provider(t)
		if _, err := r.up(t, p, claim("a", everySize()...)); err != nil {
			t.Fatal(err)
		}
		r.fault(t, azureemulator.Fault{Method: "PUT", Path: "/virtualMachines/[^/]+$", Status: 403, Code: "AuthorizationFailed", Times: 1,
			Message: "The client 'c' with object id 'o-1' does not have authorization to perform action 'Microsoft.Compute/virtualMachines/write' over scope '/vm' or the scope is invalid."})
		for state := provider.Creating; state != provider.Running; {
			in, err := p.Launch(t.Context(), claim("b", everySize()...))
			if errors.As(err, new(*provider.NotReadyError)) {
				t.Fatal(err)
			}
			state = in.State
			if reason, detail := p.ClassPause("default"); reason != "" {
				t.Fatalf("the class rests: %s: %s", reason, detail)
			}
			time.Sleep(in.RetryAfter)
		}
		if n := r.requested(); n != 3 {
			t.Errorf("%d requests for VMs, want three: one was denied", n)
		}
	})
}
