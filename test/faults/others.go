// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/test/scarcity"
)

// others are the other users of the resource group, with what they have there.
type others struct {
	region *azureemulator.Server
	vms    map[string]*azureemulator.VMState
	parts  map[string]bool // interfaces and disks
}

func newOthers(region *azureemulator.Server) *others {
	return &others{region: region, vms: map[string]*azureemulator.VMState{}, parts: map[string]bool{}}
}

// owns reports whether the VM of that name is one of theirs.
func (o *others) owns(vm string) bool { return o.vms[vm] != nil }

// create puts VMs and interfaces of others into the region, besides the system pool that is
// there: of another cluster's karve, without an owner, and some that look like ours.
func (o *others) create(ctx context.Context) error {
	others := map[string]string{
		"aks-fault-1-0-other":   `"karve.dev_cluster": "other", "karve.dev_claim": "fault-1-0", "karve.dev_claim-uid": "uid-1-1-0", "karpenter.azure.com_cluster": "other"`,
		"aks-fault-2-0":         `"karpenter.azure.com_cluster": "other", "karpenter.sh_nodepool": "fault"`,
		"jumpbox":               `"team": "a"`,
		"aks-fault-3-0-nobodys": `"karve.dev_claim": "fault-3-0"`,
	}
	for name, tags := range others {
		for _, part := range []string{name + "-loose", name + "-nic"} {
			if err := o.putInterface(ctx, part, tags); err != nil {
				return err
			}
		}
		if err := o.put(ctx, "/providers/Microsoft.Compute/virtualMachines/"+name, o.vmBody(name, tags)); err != nil {
			return err
		}
	}
	if err := scarcity.Sleep(ctx, 10*time.Minute); err != nil { // until all of them run
		return err
	}
	state := o.region.State()
	for i := range state.VMs {
		o.vms[state.VMs[i].Name] = &state.VMs[i]
	}
	for _, nic := range state.NICs {
		o.parts[nic.Name] = true
	}
	for _, disk := range state.Disks {
		o.parts[disk] = true
	}
	return nil
}

// addInterfaces leaves an unattached interface beside one VM in twenty, with the tags of its claim.
func (o *others) addInterfaces(ctx context.Context, claims map[string]claim) error {
	for _, c := range claims {
		if c.id == "" || c.order%20 != 0 {
			continue
		}
		tags := fmt.Sprintf(`"karve.dev_cluster": %q, "karve.dev_claim": %q, %q: %q`, clusterName, c.Name, tagClaimUID, c.UID)
		if err := o.putInterface(ctx, path.Base(c.id)+"-left", tags); err != nil {
			return err
		}
	}
	return nil
}

// changed are things of others that are gone or changed.
func (o *others) changed() []string {
	var all []string
	state := o.region.State()
	left := map[string]bool{}
	for _, vm := range state.VMs {
		left[vm.Name] = true
		if was := o.vms[vm.Name]; was != nil && (!maps.Equal(was.Tags, vm.Tags) || was.Power != vm.Power || !was.Created.Equal(vm.Created)) {
			all = append(all, vm.Name)
		}
	}
	for _, nic := range state.NICs {
		left[nic.Name] = true
	}
	for _, disk := range state.Disks {
		left[disk] = true
	}
	for name := range o.vms {
		if !left[name] {
			all = append(all, name)
		}
	}
	for name := range o.parts {
		if !left[name] {
			all = append(all, name)
		}
	}
	return all
}

// left is what there is besides what others have.
func (o *others) left() []string {
	state := o.region.State()
	var names []string
	for _, vm := range state.VMs {
		if o.vms[vm.Name] == nil {
			names = append(names, "machine "+vm.Name)
		}
	}
	for _, m := range state.Machines {
		names = append(names, "machine "+m.Name+" of AKS's")
	}
	for _, nic := range state.NICs {
		if !o.parts[nic.Name] {
			names = append(names, "interface "+nic.Name)
		}
	}
	for _, disk := range state.Disks {
		if !o.parts[disk] {
			names = append(names, "disk "+disk)
		}
	}
	return names
}

func (o *others) putInterface(ctx context.Context, name, tags string) error {
	return o.put(ctx, "/providers/Microsoft.Network/networkInterfaces/"+name,
		fmt.Sprintf(`{"location": %q, "tags": {%s}, "properties": {"ipConfigurations": [{"name": "ip", "properties": {"primary": true, "subnet": {"id": %q}}}]}}`,
			o.region.Location(), tags, o.region.SubnetID()))
}

// vmBody is the body of a VM of others.
func (o *others) vmBody(name, tags string) string {
	return fmt.Sprintf(`{"location": %q, "tags": {%s}, "properties": {
		"hardwareProfile": {"vmSize": %q},
		"storageProfile": {"osDisk": {"createOption": "FromImage", "diskSizeGB": 128},
			"imageReference": {"communityGalleryImageId": "/CommunityGalleries/AKSUbuntu-38d80f77-467a-481f-a8d4-09b6d4220bd2/images/2204gen2containerd"}},
		"osProfile": {"computerName": %q, "adminUsername": "azureuser"},
		"networkProfile": {"networkInterfaces": [{"id": "%s/providers/Microsoft.Network/networkInterfaces/%s-nic", "properties": {"primary": true}}]}}}`,
		o.region.Location(), tags, cheapest, name, o.group(), name)
}

func (o *others) group() string {
	return "/subscriptions/" + o.region.SubscriptionID() + "/resourceGroups/" + o.region.NodeResourceGroup()
}

func (o *others) put(ctx context.Context, resource, body string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, o.region.URL()+o.group()+resource+"?api-version=2024-07-01", strings.NewReader(body))
	if err != nil {
		return err
	}
	credential, err := o.region.Credential()
	if err != nil {
		return err
	}
	token, err := credential.GetToken(ctx, policy.TokenRequestOptions{})
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token.Token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := o.region.InProcess().Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if answer, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("PUT %s: %s: %s", resource, resp.Status, answer)
	}
	return nil
}

// transport is the way to Azure. It takes its time, and notes writes to what others have.
type transport struct {
	next   policy.Transporter
	others *others

	mu    sync.Mutex
	wrote []string
}

func newTransport(next policy.Transporter, others *others) *transport {
	return &transport{next: next, others: others}
}

// Do passes a request on.
func (w *transport) Do(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet {
		w.note(req)
	}
	if err := scarcity.Travel(req); err != nil {
		return nil, err
	}
	return w.next.Do(req)
}

func (w *transport) note(req *http.Request) {
	name := path.Base(req.URL.Path)
	if !w.others.owns(name) && !w.others.parts[name] {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrote = append(w.wrote, req.Method+" "+name)
}

func (w *transport) changedByUs() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.wrote)
}
