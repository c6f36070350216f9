// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure"
)

// An error before the request that affects all launches of a node class pauses it for three
// minutes, and the class reports it with the next step; launches continue once it is fixed.
//
// Rule REFUSAL-8.
func TestClassWhoseVMsCannotBePrepared(t *testing.T) {
	swap := func(r *region, size string) {
		c := class("1.36.3")
		c.Spec.LinuxOSConfig = &v1beta1.LinuxOSConfiguration{SwapFileSize: &size}
		r.class.Store(c)
	}
	for name, test := range map[string]struct {
		aks    bool
		wrong  func(t *testing.T, r *region) (mend func())
		reason string
		words  []string
	}{
		"no bootstrap token": {false, func(t *testing.T, r *region) func() {
			token := errors.New("no token is good: create one with kubeadm")
			r.options.BootstrapToken = func(context.Context) (string, error) { return "abcdef.0123456789abcdef", token }
			return func() { token = nil }
		}, azure.ClassUnprepared, []string{"reading the bootstrap token", "create one with kubeadm"}},
		"no security group": {false, func(t *testing.T, r *region) func() {
			subnet, err := r.Network.AddSubnet("network", "network", "nodes", "10.1.0.0/16")
			if err != nil {
				t.Fatal(err)
			}
			r.options.VNetSubnetID = subnet
			if err := r.Inject(azureemulator.NamedFault{Name: "NoSecurityGroups", Times: -1}); err != nil {
				t.Fatal(err)
			}
			return r.ClearFaults
		}, azure.ClassUnprepared, []string{"found 0 network security groups", "--node-security-group-id"}},
		"what VMs cannot boot with": {false, func(t *testing.T, r *region) func() {
			swap(r, "many")
			return func() { swap(r, "1Gi") }
		}, azure.ClassUnprepared, []string{"swap file size", "many"}},
		"what the AKS API has no field for": {true, func(t *testing.T, r *region) func() {
			swap(r, "many")
			return func() { swap(r, "1Gi") }
		}, azure.ClassUnprepared, []string{"swapFileSize", "many"}},
		"no such group": {false, func(t *testing.T, r *region) func() {
			r.fault(t, azureemulator.Fault{Method: "GET", Path: "/virtualMachines$", Status: http.StatusNotFound, Code: "ResourceGroupNotFound", Message: "Resource group 'MC_wrong' could not be found.", Times: -1})
			return r.ClearFaults
		}, azure.ClassUnprepared, []string{"ResourceGroupNotFound", "correct AZURE_NODE_RESOURCE_GROUP", "MC_wrong"}},
		"a group that may not be read": {false, func(t *testing.T, r *region) func() {
			r.fault(t, azureemulator.Fault{Method: "GET", Path: "/virtualMachines$", Status: http.StatusForbidden, Code: "AuthorizationFailed", Times: -1,
				Message: "The client 'c' with object id 'o-1' does not have authorization to perform action 'Microsoft.Compute/virtualMachines/read' over scope '/group' or the scope is invalid."})
			return r.ClearFaults
		}, azure.ClassDenied, []string{"Virtual Machine Contributor", "o-1 on /group"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1, TimeScale: 1, Seed: 1}).small().madeBy(test.aks)
				mend := test.wrong(t, r)
				p := r.provider(t)
				before, _ := blocked(t, p, "default")
				for i := range 20 {
					if _, err := p.Launch(t.Context(), claim(fmt.Sprint("a", i%5), onDemand("Standard_D4s_v5", "eastus-1"))); err == nil {
						t.Fatal("launched")
					}
					if reason, detail := p.ClassPause("default"); i < 2 && reason != "" {
						t.Fatalf("after %d launches the class says %s: %s", i+1, reason, detail)
					}
					time.Sleep(2 * time.Second)
				}
				reason, detail := p.ClassPause("default")
				if reason != test.reason {
					t.Errorf("the class says %s: %s", reason, detail)
				}
				for _, words := range test.words {
					if !strings.Contains(detail, words) {
						t.Errorf("%q does not say %q", detail, words)
					}
				}
				if now, _ := blocked(t, p, "default"); now == before {
					t.Error("the class has all its offerings")
				}
				mend()
				time.Sleep(5 * time.Minute)
				if _, err := r.up(t, p, claim("b", onDemand("Standard_D4s_v5", "eastus-1"))); err != nil {
					t.Errorf("once it is mended: %v", err)
				}
				if reason, detail := p.ClassPause("default"); reason != "" {
					t.Errorf("it still says %s: %s", reason, detail)
				}
			})
		})
	}
}

// An error that passes by itself, or that affects one claim of a class with successful launches,
// pauses no class.
//
// Rule REFUSAL-8.
func TestTemporaryErrorsPauseNothing(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		taints []provider.Taint
	}{
		"load balancers cannot be listed": {status: http.StatusServiceUnavailable},
		"one claim is wrong":              {taints: []provider.Taint{{Key: "team", Value: "not a value", Effect: "NoSchedule"}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1, TimeScale: 1, Seed: 1}).small()
				p := r.provider(t)
				c := claim("a", onDemand("Standard_D4s_v5", "eastus-1"))
				if c.Taints = test.taints; test.status > 0 {
					r.fault(t, azureemulator.Fault{Method: "GET", Path: "/loadBalancers$", Status: test.status, Times: -1})
				} else if _, err := r.up(t, p, claim("fine", onDemand("Standard_D4s_v5", "eastus-1"))); err != nil {
					t.Fatal(err)
				}
				for range 20 {
					if in, err := p.Launch(t.Context(), c); err == nil || errors.As(err, new(*provider.NotReadyError)) {
						t.Fatalf("launching: %+v, %v", in, err)
					}
					if reason, detail := p.ClassPause("default"); reason != "" {
						t.Fatalf("the class says %s: %s", reason, detail)
					}
					time.Sleep(2 * time.Second)
				}
			})
		})
	}
}
