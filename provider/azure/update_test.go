// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure"
)

// fleet is a region with one running virtual machine, and the tags of its class.
type fleet struct {
	*region
	t    *testing.T
	id   string
	name string
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{region: newVirtualRegion(t, azureemulator.Options{SystemNodes: -1, TimeScale: 1, Throttle: true, Seed: 1}).small(), t: t}
	f.options.AdditionalTags = map[string]string{"owner": "platform"}
	f.options.NodeIdentities = []string{f.identity("kubelet")}
	f.tag(map[string]string{"team": "a", "cost/center": "7"})
	id, err := f.up(t, f.provider(t), claim("web-1", onDemand("Standard_D4s_v5", "eastus-1")))
	if err != nil {
		t.Fatal(err)
	}
	f.id, f.name = id, id[strings.LastIndex(id, "/")+1:]
	return f
}

func (f *fleet) group() string {
	return "/subscriptions/" + f.SubscriptionID() + "/resourceGroups/" + f.NodeResourceGroup()
}

func (f *fleet) identity(name string) string {
	return f.group() + "/providers/Microsoft.ManagedIdentity/userAssignedIdentities/" + name
}

// tag changes the tags of the class, and makes it remember those it had.
func (f *fleet) tag(tags map[string]string) {
	f.t.Helper()
	c := class("1.36.3")
	c.Annotations = f.class.Load().Annotations
	c.Spec.Tags = tags
	keys, err := json.Marshal(f.provider(f.t).TagKeys(c))
	if err != nil {
		f.t.Fatal(err)
	}
	c.Annotations = map[string]string{azure.AnnotationTagKeys: string(keys)}
	f.class.Store(c)
}

// update brings the virtual machine up to date, and returns what was changed.
func (f *fleet) update(p *azure.Provider) (changed []string, err error) {
	f.t.Helper()
	for range 10 {
		time.Sleep(2 * time.Minute) // lists are newer than the last change
		u, err := p.Update(f.t.Context(), provider.LaunchedNode{Claim: "web-1", ProviderID: f.id, Class: "default"})
		if err != nil {
			return changed, err
		}
		if u.Changed != "" {
			changed = append(changed, u.Changed)
		}
		if u.RetryAfter == 0 {
			return changed, nil
		}
	}
	f.t.Fatal("it never ends")
	return nil, nil
}

// resource is a virtual machine or an interface as Azure returns it.
type resource struct {
	Name     string
	Tags     map[string]string
	Identity struct {
		UserAssignedIdentities map[string]any
	}
}

func (f *fleet) resources() (vm, nic resource) {
	f.t.Helper()
	var list struct{ Value []resource }
	for path, into := range map[string]*resource{"Compute/virtualMachines": &vm, "Network/networkInterfaces": &nic} {
		if err := json.Unmarshal([]byte(f.ask(f.t, http.MethodGet, f.group()+"/providers/Microsoft."+path, "")), &list); err != nil || len(list.Value) != 1 {
			f.t.Fatalf("%d of %s, %v", len(list.Value), path, err)
		}
		*into = list.Value[0]
	}
	return vm, nic
}

// users returns the tags that do not identify the virtual machine.
func users(tags map[string]string) map[string]string {
	out := map[string]string{}
	for key, value := range tags {
		if !strings.Contains(key, "kar") && key != "compute.aks.billing" {
			out[key] = value
		}
	}
	return out
}

func (f *fleet) want(tags map[string]string) {
	f.t.Helper()
	vm, nic := f.resources()
	for _, r := range []resource{vm, nic} {
		if diff := cmp.Diff(tags, users(r.Tags)); diff != "" {
			f.t.Errorf("tags of %s (-want +got):\n%s", r.Name, diff)
		}
		if r.Tags["karve.dev_claim"] != "web-1" || r.Tags["karpenter.azure.com_cluster"] != "karve" {
			f.t.Errorf("%s does not say any more what it is: %v", r.Name, r.Tags)
		}
	}
}

// Tags follow the class, on the virtual machine and its interface, by one write each; tags of
// other users are kept, and an update without changes costs nothing.
//
// Rule SETTING-1.
func TestTagsFollowInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		p := f.provider(t)
		if changed, err := f.update(p); err != nil || len(changed) > 0 {
			t.Fatalf("a VM that was just made: %v, %v", changed, err)
		}
		vm, nic := f.resources()
		for path, tags := range map[string]map[string]string{
			"Compute/virtualMachines/" + vm.Name: vm.Tags, "Network/networkInterfaces/" + nic.Name: nic.Tags,
		} {
			tags["Policy"] = "x"
			body, _ := json.Marshal(map[string]any{"tags": tags})
			f.ask(t, http.MethodPatch, f.group()+"/providers/Microsoft."+path, string(body))
		}
		f.tag(map[string]string{"Team": "b", "stage": "prod", "compute.aks.billing": "none"})
		before := f.Ledger().ByOperation
		changed, err := f.update(p)
		if err != nil || !slices.Equal(changed, []string{"tags"}) {
			t.Errorf("changed %q, %v", changed, err)
		}
		f.want(map[string]string{"owner": "platform", "Team": "b", "stage": "prod", "Policy": "x"})
		after := f.Ledger().ByOperation
		if n, m := after["VirtualMachines.Update"]-before["VirtualMachines.Update"], after["Interfaces.UpdateTags"]-before["Interfaces.UpdateTags"]; n != 1 || m != 1 {
			t.Errorf("%d writes to the VM and %d to its interface, want one each", n, m)
		}
		if after["VirtualMachines.CreateOrUpdate"] != 1 {
			t.Error("another VM was launched")
		}
		vm, _ = f.resources()
		if vm.Tags["compute.aks.billing"] != "linux" {
			t.Error("a class has changed what a VM is billed as")
		}
	})
}

// Identities are added, and none is removed.
//
// Rule SETTING-2.
func TestIdentitiesAreAddedInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.options.NodeIdentities = []string{strings.ToUpper(f.identity("logs"))}
		changed, err := f.update(f.provider(t))
		vm, _ := f.resources()
		if err != nil || !slices.Equal(changed, []string{"tags and identities"}) || len(vm.Identity.UserAssignedIdentities) != 2 {
			t.Errorf("changed %q, %v; now %v", changed, err, vm.Identity)
		}
		f.options.NodeIdentities = nil
		if changed, err := f.update(f.provider(t)); err != nil || len(changed) > 0 {
			t.Errorf("fewer identities: changed %q, %v", changed, err)
		}
	})
}

// An update that was interrupted is completed by a later one: after the interface, after a write
// whose answer was lost, after another user's change.
//
// Rule SETTING-1.
func TestUpdateGoesOnAfterFailures(t *testing.T) {
	for name, fault := range map[string]azureemulator.Fault{
		"the VM is not changed":       {Method: "PATCH", Path: vmPath, Status: 500, Times: 8},
		"the answer is lost":          {Method: "PATCH", Path: vmPath, Lose: true},
		"somebody else changed it":    {Method: "PATCH", Path: vmPath, Status: 412, Code: "PreconditionFailed", Times: 2},
		"VMs cannot be listed":        {Method: "GET", Path: "/virtualMachines$", Status: 500, Times: 8},
		"the interface has its locks": {Method: "PATCH", Path: "/networkInterfaces/", Status: 409, Code: "ScopeLocked"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				f.tag(map[string]string{"team": "b"})
				f.fault(t, fault)
				var err error
				for range 5 {
					if _, err = f.update(f.provider(t)); err == nil { // a new process each time
						break
					}
				}
				if err != nil {
					t.Error(err)
				}
				f.want(map[string]string{"owner": "platform", "team": "b"})
			})
		})
	}
}

// While others use up the limit of changes to VMs, an update waits, and goes on afterwards.
//
// Rule SETTING-1.
func TestUpdateOutlastsExhaustedLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const exhausted = "ExhaustedComputeUpdateVM"
		f := newFleet(t)
		f.tag(map[string]string{"team": "b"})
		p := f.provider(t)
		time.Sleep(2 * time.Minute)
		if err := f.Inject(azureemulator.NamedFault{Name: exhausted}); err != nil {
			t.Fatal(err)
		}
		if u, err := p.Update(t.Context(), provider.LaunchedNode{Claim: "web-1", ProviderID: f.id, Class: "default"}); err == nil && u.RetryAfter == 0 || f.Struck()[exhausted] == 0 {
			t.Errorf("%+v, %v; struck %v", u, err, f.Struck())
		}
		if _, err := f.update(p); err != nil {
			t.Error(err)
		}
		f.want(map[string]string{"owner": "platform", "team": "b"})
	})
}

// Virtual machines of other owners are not changed.
//
// Rule SETTING-1.
func TestForeignVMsAreNotChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := inheritedRegion(t)
		p := r.provider(t)
		c := class("1.36.3")
		c.Spec.Tags = map[string]string{"team": "b"}
		r.class.Store(c)
		for name, change := range map[string]*strings.Replacer{
			"another-cluster": strings.NewReplacer(`"karpenter.azure.com_cluster": "karve"`, `"karpenter.azure.com_cluster": "other"`),
			"a-machine-pool":  strings.NewReplacer(`"team": "a"`, `"karpenter.azure.com_aksmachine_nodeclaim": "web-abcde"`),
		} {
			id := r.inherit(t, name, change)
			time.Sleep(10 * time.Minute)
			if u, err := p.Update(t.Context(), provider.LaunchedNode{ProviderID: id, Class: "default"}); err != nil || u.Changed != "" {
				t.Errorf("%s: %+v, %v", name, u, err)
			}
		}
	})
}

// A class remembers all keys it had, in any case, and no annotation makes karve remove the tags
// that identify a virtual machine.
func TestTagKeys(t *testing.T) {
	p := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1}).provider(t)
	c := &v1beta1.AKSNodeClass{}
	c.Annotations = map[string]string{azure.AnnotationTagKeys: `["old","karve.dev_claim"]`}
	c.Spec.Tags = map[string]string{"Team/x": "a", "OLD": "b"}
	if diff := cmp.Diff([]string{"old", "team_x"}, p.TagKeys(c)); diff != "" {
		t.Error(diff)
	}
	c.Annotations[azure.AnnotationTagKeys] = "what?"
	if diff := cmp.Diff([]string{"old", "team_x"}, p.TagKeys(c)); diff != "" {
		t.Error(diff)
	}
}
