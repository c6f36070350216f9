// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure"
)

// newAKSFleet is newFleet with a machine created by AKS.
func newAKSFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{region: newVirtualRegion(t, azureemulator.Options{SystemNodes: -1, TimeScale: 1, Throttle: true, Seed: 1}).small().aks(1), t: t}
	f.options.AdditionalTags = map[string]string{"owner": "platform"}
	f.options.NodeIdentities = []string{f.identity("kubelet")}
	f.tag(map[string]string{"team": "a"})
	f.id = f.mustRun(t, f.provider(t), claim("web-1", onDemand("Standard_D4s_v5", "eastus-1")))
	return f
}

// pooledTags returns the tags of the AKS machine and of the virtual machine behind it.
func (f *fleet) pooledTags() []map[string]string {
	f.t.Helper()
	s := f.State()
	if len(s.Machines) != 1 || len(s.VMs) != 1 {
		f.t.Fatalf("%d machines of AKS, %d of Compute", len(s.Machines), len(s.VMs))
	}
	tags := []map[string]string{s.Machines[0].Tags, s.VMs[0].Tags}
	for _, t := range tags {
		if t["karve.dev_claim"] != "web-1" {
			f.t.Errorf("it does not say any more what it is: %v", t)
		}
	}
	return []map[string]string{users(tags[0]), users(tags[1])}
}

// Tags follow the node class on AKS machines, with one request, and none of AKS's own properties
// is lost.
//
// Rule SETTING-1.
func TestTagsOfAKSMachinesFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newAKSFleet(t)
		p := f.provider(t)
		if changed, err := f.update(p); err != nil || len(changed) > 0 {
			t.Fatalf("a machine that was just made: %v, %v", changed, err)
		}
		f.tag(map[string]string{"stage": "prod"})
		before := f.Ledger().Writes
		if changed, err := f.update(p); err != nil || !slices.Equal(changed, []string{"tags"}) {
			t.Errorf("changed %q, %v", changed, err)
		}
		if n := f.Ledger().Writes - before; n != 1 {
			t.Errorf("%d writes, want 1", n)
		}
		want := map[string]string{"owner": "platform", "stage": "prod"}
		virtual := map[string]string{"owner": "platform", "stage": "prod", "aks-managed-poolName": f.MachinesPool(), "aks-managed-creationSource": "vms"}
		if diff := cmp.Diff([]map[string]string{want, virtual}, f.pooledTags()); diff != "" {
			t.Errorf("tags (-want +got):\n%s", diff)
		}
	})
}

// Whatever happens between the list and the write, the machine is updated in the end, and none
// is created.
//
// Rule SETTING-1.
func TestTagsOfAKSMachinesAfterFailures(t *testing.T) {
	for name, fault := range map[string]azureemulator.Fault{
		"AKS fails":               {Method: "PUT", Path: "/machines/", Status: 500, Times: 8},
		"the answer is lost":      {Method: "PUT", Path: "/machines/", Lose: true},
		"somebody else was first": {Method: "PUT", Path: "/machines/", Status: 412, Code: "PreconditionFailed", Times: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newAKSFleet(t)
				f.tag(map[string]string{"team": "b"})
				f.fault(t, fault)
				var err error
				for range 5 {
					if _, err = f.update(f.provider(t)); err == nil {
						break
					}
				}
				if err != nil {
					t.Error(err)
				}
				if got := f.pooledTags()[0]; got["team"] != "b" {
					t.Errorf("tags %v", got)
				}
			})
		})
	}
}

// A machine that is deleted after it was listed is not recreated by the update of its tags.
//
// Rule SETTING-1.
func TestTagsRecreateNoMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newAKSFleet(t)
		p := f.provider(t)
		if _, err := p.List(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.tag(map[string]string{"team": "b"})
		group := "/subscriptions/" + f.SubscriptionID() + "/resourceGroups/" + f.ClusterResourceGroup()
		pool := group + "/providers/Microsoft.ContainerService/managedClusters/karve/agentPools/" + f.MachinesPool()
		f.ask(t, http.MethodPost, pool+"/deleteMachines", fmt.Sprintf(`{"machineNames":[%q]}`, f.State().Machines[0].Name))
		for len(f.State().Machines) > 0 {
			time.Sleep(time.Second)
		}
		u, err := p.Update(t.Context(), provider.LaunchedNode{Claim: "web-1", ProviderID: f.id, Class: "default"})
		if err != nil || u.Changed != "" {
			t.Errorf("%+v, %v", u, err)
		}
		if s := f.State(); len(s.Machines)+len(s.VMs) > 0 {
			t.Errorf("made: %v", s.Machines)
		}
	})
}

// A machine that AKS no longer knows is deleted through Compute, whether or not karve had seen
// it in AKS before.
//
// Rule AKS-3.
func TestVMForgottenByAKSIsDeleted(t *testing.T) {
	for name, another := range map[string]bool{"by the process that launched it": false, "by another process": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1, Seed: 1}).small().aks(azure.MostInBatch)
				p := r.provider(t)
				id := r.mustRun(t, p, claim("a", onDemand("Standard_D4s_v5", "eastus-1")))
				if err := r.VMs.ForgetMachine(r.State().Machines[0].Name); err != nil {
					t.Fatal(err)
				}
				if another {
					p = r.provider(t)
				}
				if in, err := p.Get(t.Context(), id); err != nil || in.State != provider.Running {
					t.Errorf("it is %+v, %v", in, err)
				}
				r.mustEnd(t, p, id)
				if n := len(r.State().VMs); n != 0 {
					t.Errorf("%d virtual machines are left", n)
				}
			})
		})
	}
}
