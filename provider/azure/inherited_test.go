// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/provider"
)

// inherit creates a virtual machine as Karpenter's provider for Azure does: an interface of its
// own, then the virtual machine, both named after the claim. change may alter both.
func (r *region) inherit(t *testing.T, claim string, change *strings.Replacer) (providerID string) {
	t.Helper()
	group := "/subscriptions/" + r.SubscriptionID() + "/resourceGroups/" + r.NodeResourceGroup()
	nic := group + "/providers/Microsoft.Network/networkInterfaces/aks-" + claim
	vm := group + "/providers/Microsoft.Compute/virtualMachines/aks-" + claim
	fill := strings.NewReplacer("SUBNET", r.SubnetID(), "INTERFACE", nic, "web-x7k2p", claim)
	r.put(t, nic, change.Replace(fill.Replace(golden(t, "interface.json"))))
	r.put(t, vm, change.Replace(fill.Replace(golden(t, "machine.json"))))
	return "azure://" + strings.Replace(vm, r.NodeResourceGroup(), strings.ToLower(r.NodeResourceGroup()), 1)
}

func golden(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile("testdata/inherited/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func (r *region) put(t *testing.T, path, body string) {
	t.Helper()
	r.ask(t, http.MethodPut, path, body)
}

// ask sends a request that must succeed, and returns the answer.
func (r *region) ask(t *testing.T, method, path, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, r.URL()+path+"?api-version=2024-07-01", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	token, err := r.options.Credential.GetToken(t.Context(), policy.TokenRequestOptions{Scopes: []string{"https://management.core.windows.net//.default"}})
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token.Token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(resp.Body)
	if resp.StatusCode >= 300 {
		t.Fatalf("%s %s: %s: %s", method, path, resp.Status, answer)
	}
	return string(answer)
}

var unchanged = strings.NewReplacer()

func inheritedRegion(t *testing.T) *region {
	t.Helper()
	server, err := azureemulator.New(t.Context(), azureemulator.Options{SystemNodes: -1})
	if err != nil {
		t.Fatal(err)
	}
	r := regionOf(t, server).small()
	r.options.CABundle = []byte(azureemulator.IdleAuthority)
	return r
}

// Rule TAKEOVER-3.
func TestVMsOfKarpenterAreThisClusters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := inheritedRegion(t)
		id := r.inherit(t, "web-x7k2p", unchanged)
		p := r.provider(t)
		var in provider.Instance
		for range 2000 {
			var err error
			if in, err = p.Get(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			if in.State == provider.Running {
				break
			}
			time.Sleep(10 * time.Second)
		}
		if in.State != provider.Running || !strings.EqualFold(in.ProviderID, id) || in.ClaimName != "web-x7k2p" || in.ClaimUID != "" || in.Pool != "web" ||
			in.Type != "Standard_D4s_v5" || in.Zone != "eastus-1" || in.NodeName != "aks-web-x7k2p" {
			t.Errorf("read as %+v", in)
		}
		if list, err := p.List(t.Context()); err != nil || len(list) != 1 || list[0].ProviderID != in.ProviderID {
			t.Errorf("listed as %+v, %v", list, err)
		}
		// An earlier hash and no Kubernetes version, as the claims of Karpenter's provider have
		// it.
		drift, err := p.Drift(t.Context(), provider.LaunchedNode{
			Claim: "web-x7k2p", ProviderID: id, Class: "default", ImageID: in.ImageID, KubeletVersion: "v1.36.3",
			Annotations: map[string]string{v1beta1.AnnotationHash: "1", v1beta1.AnnotationHashVersion: "v1"},
		})
		if drift.Reason != "" {
			t.Errorf("it drifted: %+v, %v", drift, err)
		}
		if leftovers, err := p.Leftovers(t.Context()); err != nil || len(leftovers) > 0 {
			t.Errorf("leftovers %+v, %v", leftovers, err)
		}
		neighbour := r.inherit(t, "web-x7k2p-abcde", unchanged)
		if err := r.down(t, p, id); err != nil {
			t.Fatal(err)
		}
		r.wantMachines(t, 1)
		if _, err := p.Get(t.Context(), neighbour); err != nil {
			t.Errorf("the VM whose name begins alike: %v", err)
		}
		if _, err := p.Get(t.Context(), id); !errors.Is(err, provider.ErrNotFound) {
			t.Errorf("after its end: %v", err)
		}
	})
}

// A launch that Karpenter began is finished, not repeated.
//
// Rule TAKEOVER-3.
func TestLaunchTakesOverKarpentersVM(t *testing.T) {
	r := inheritedRegion(t)
	id := r.inherit(t, "web-x7k2p", unchanged)
	p := r.provider(t)
	c := claim("web-x7k2p", onDemand("Standard_D8s_v5", "eastus-2"))
	in, _ := run(t, p, c)
	if !strings.EqualFold(in.ProviderID, id) || in.Type != "Standard_D4s_v5" || in.ClaimUID != c.UID || in.Capacity["cpu"] != 4000 {
		t.Errorf("launched %+v", in)
	}
	r.wantMachines(t, 1)
	other := c
	other.Pool = "batch"
	if in, _ := run(t, p, other); strings.EqualFold(in.ProviderID, id) {
		t.Error("a claim of another pool has taken the machine over")
	}
	r.wantMachines(t, 2)
}

func TestTerminateByClaimOfKarpenter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := inheritedRegion(t)
		r.inherit(t, "web-x7k2p", unchanged)
		p := r.provider(t)
		c := claim("web-x7k2p", onDemand("Standard_D8s_v5", "eastus-2"))
		for range 2000 {
			if err := p.TerminateByClaim(t.Context(), c); errors.Is(err, provider.ErrNotFound) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
		}
		if left := r.residue(t); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
}

// A virtual machine that exists is not reported as deleted, whichever tool owns it, and one of
// another owner is not deleted.
//
// Rule TAKEOVER-3.
func TestForeignVMsAreNeitherGoneNorDeleted(t *testing.T) {
	for name, change := range map[string]*strings.Replacer{
		"another cluster":   strings.NewReplacer(`"karpenter.azure.com_cluster": "karve"`, `"karpenter.azure.com_cluster": "other"`),
		"tags were removed": strings.NewReplacer(`"karpenter.azure.com_cluster": "karve", "karpenter.sh_nodepool": "web", `, ""),
	} {
		t.Run(name, func(t *testing.T) {
			r := inheritedRegion(t)
			id := r.inherit(t, "web-x7k2p", change)
			p := r.provider(t)
			if _, err := p.Get(t.Context(), id); err == nil || errors.Is(err, provider.ErrNotFound) || !strings.Contains(err.Error(), "tags of cluster karve") {
				t.Errorf("get: %v", err)
			}
			if err := p.Terminate(t.Context(), id); err == nil || errors.Is(err, provider.ErrNotFound) {
				t.Errorf("terminate: %v", err)
			}
			if list, err := p.List(t.Context()); err != nil || len(list) > 0 {
				t.Errorf("list: %+v, %v", list, err)
			}
			r.wantMachines(t, 1)
		})
	}
}

// Machines of AKS's own machine API are listed, and are neither changed nor deleted.
//
// Rule TAKEOVER-3.
func TestMachinesOfTheMachineAPIAreSeenAndNotDeleted(t *testing.T) {
	r := inheritedRegion(t)
	id := r.inherit(t, "web-x7k2p", strings.NewReplacer(`"team": "a"`, `"karpenter.azure.com_aksmachine_nodeclaim": "web-abcde"`))
	p := r.provider(t)
	if in, err := p.Get(t.Context(), id); err != nil || in.ClaimName != "web-abcde" {
		t.Errorf("read as %+v, %v", in, err)
	}
	if err := p.Terminate(t.Context(), id); err == nil || !strings.Contains(err.Error(), "delete-machines") {
		t.Errorf("terminate: %v", err)
	}
	r.wantMachines(t, 1)
}
