// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure"
)

func nobody(string, string) bool { return false }

// An interface or disk without a virtual machine is deleted once it was a leftover for longer than
// Azure reserves interfaces, unless its claim exists. Resources of other owners are left alone.
//
// Rule COLLECT-8.
func TestLeftoversAreFoundAndDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1}).small()
		p := r.provider(t)
		c := claim("a", onDemand("Standard_D2s_v5", "eastus-1"))
		if _, err := r.up(t, p, c); err != nil {
			t.Fatal(err)
		}
		name := r.State().VMs[0].Name
		r.leaveNIC(t, name+"-left", c)
		r.leaveNIC(t, name+"-right", provider.Claim{Name: "b"})
		if leftovers, err := p.Leftovers(t.Context()); err != nil || len(leftovers) > 0 {
			t.Fatalf("leftovers while the VM lives: %v, %v", leftovers, err)
		}
		r.deleteVM(t, name)
		leftovers, err := p.Leftovers(t.Context())
		if err != nil || len(leftovers) != 1 || leftovers[0].Kind != azure.LeftoverNIC || leftovers[0].Claim != "a" {
			t.Fatalf("leftovers after it went: %+v, %v", leftovers, err)
		}
		collect := func(want int, claimed func(name, uid string) bool, when string) {
			t.Helper()
			if names, err := p.CollectLeftovers(t.Context(), claimed); err != nil || len(names) != want {
				t.Fatalf("deleted %v, %v %s, want %d", names, err, when, want)
			}
		}
		collect(0, nobody, "at once")
		time.Sleep(5 * time.Minute)
		collect(0, func(_, uid string) bool { return uid == c.UID }, "while the claim lives")
		collect(0, nobody, "when it is seen first")
		time.Sleep(5 * time.Minute)
		collect(1, nobody, "five minutes later")
		time.Sleep(time.Minute)
		if left := r.residue(t); !slices.Equal(left, []string{"interface " + name + "-right"}) {
			t.Errorf("left are %v, want what is nobody's to delete", left)
		}
	})
}

// Interfaces and disks that Karpenter's provider left behind are deleted too, by the name of
// their claim, because they carry no UID.
//
// Rule COLLECT-8.
func TestLeftoversOfKarpenter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1}).small()
		r.inherit(t, "web-lives", unchanged)
		for claim, tags := range map[string]string{
			"web-gone":  `"karpenter.azure.com_cluster": "karve", "karpenter.sh_nodepool": "web"`,
			"web-soon":  `"karpenter.azure.com_cluster": "karve", "karpenter.sh_nodepool": "web"`,
			"web-other": `"karpenter.azure.com_cluster": "other", "karpenter.sh_nodepool": "web"`,
			"web-aks":   `"karpenter.azure.com_cluster": "karve", "karpenter.sh_nodepool": "web", "karpenter.azure.com_aksmachine_nodeclaim": "web-aks"`,
			"web-none":  `"team": "a"`,
		} {
			nic := "/subscriptions/" + r.SubscriptionID() + "/resourceGroups/" + r.NodeResourceGroup() + "/providers/Microsoft.Network/networkInterfaces/aks-" + claim
			body := strings.ReplaceAll(golden(t, "interface.json"), `"karpenter.azure.com_cluster": "karve", "karpenter.sh_nodepool": "web"`, tags)
			r.put(t, nic, strings.NewReplacer("SUBNET", r.SubnetID(), "web-x7k2p", claim).Replace(body))
		}
		p := r.provider(t)
		for range 3 {
			if _, err := p.CollectLeftovers(t.Context(), func(name, uid string) bool { return uid == "" && name == "web-soon" }); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Minute)
		}
		want := []string{"VM aks-web-lives", "interface aks-web-aks", "interface aks-web-lives", "interface aks-web-none", "interface aks-web-other", "interface aks-web-soon", "disk aks-web-lives"}
		if left := r.residue(t); !slices.Equal(left, want) {
			t.Errorf("left are %v, want %v", left, want)
		}
	})
}

// The deletion of an interface that Azure reserves for a virtual machine is requested rarely,
// and succeeds once it is allowed.
//
// Rule COLLECT-8.
func TestReservedInterfaceIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1}).small()
		c := claim("a", onDemand("Standard_D2s_v5", "eastus-1"))
		p := r.provider(t)
		id, err := r.up(t, p, c)
		if err != nil {
			t.Fatal(err)
		}
		r.leaveNIC(t, r.State().VMs[0].Name+"-left", c)
		start := time.Now()
		r.fault(t, azureemulator.Fault{Method: "DELETE", Path: "/networkInterfaces/", Status: 400, Code: "NicReservedForAnotherVm", Times: 6})
		if err := r.down(t, p, id); err != nil {
			t.Fatal(err)
		}
		if took, asked := time.Since(start), r.Ledger().ByOperation["NetworkInterfaces.Delete"]; took < 3*time.Minute || took > 5*time.Minute || asked > 8 {
			t.Errorf("gone after %v and %d requests", took, asked)
		}
		if left := r.residue(t); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
}

// A virtual machine is read before it is deleted: the list may be out of date.
//
// Rule COLLECT-2.
func TestNothingIsDeletedByAListAlone(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small()
	p := r.provider(t)
	in, _ := run(t, p, claim("a", onDemand("Standard_D2s_v5", "eastus-1")))
	reads := r.Ledger().ByOperation["VirtualMachines.Get"]
	options := *r.options.ClientOptions
	options.Transport = &retagger{inner: options.Transport}
	r.options.ClientOptions = &options
	if err := r.provider(t).Terminate(t.Context(), in.ProviderID); err == nil || !strings.Contains(err.Error(), "so karve does not delete it") {
		t.Errorf("a VM that was given to somebody since it was listed: %v", err)
	}
	if got := r.Ledger().ByOperation["VirtualMachines.Get"] - reads; got != 1 {
		t.Errorf("it was read %d times, want once", got)
	}
	r.wantMachines(t, 1)
}
