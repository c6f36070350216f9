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

// tagClaimUID is how a machine says whose it is.
const tagClaimUID = "karve.dev_claim-uid"

// named reports whether a provider ID is that of the machine of that name.
func named(id, vm string) bool { return strings.EqualFold(path.Base(id), vm) }

// join notes that a claim's node reports.
func (t *town) join(c *claim) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.node, c.joined, t.joined[c.order], t.last = true, true, true, time.Now()
	c.poke()
}

func (t *town) lastJoined() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}

// part notes that it does not any more.
func (t *town) part(c *claim) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.node, c.silent = false, time.Now()
	c.poke()
}

// missing are orders whose machine has not joined, or is silent.
func (t *town) missing() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	silent := map[int]bool{}
	for _, c := range t.claims {
		if !c.node || c.lost {
			silent[c.order] = true
		}
	}
	var all []string
	for i := range t.options.Machines {
		if !t.joined[i] || silent[i] {
			all = append(all, fmt.Sprintf("order %d", i))
		}
	}
	return all
}

// standing are claims that exist.
func (t *town) standing() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []string
	for _, c := range t.claims {
		all = append(all, c.Name)
	}
	return all
}

func (t *town) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.made
}

// observe looks for claims with two machines.
func (t *town) observe() {
	machines := map[string]int{}
	for vm, uid := range t.region.VMs.Tagged(tagClaimUID) {
		if uid != "" && t.foreign.machines[vm] == nil {
			machines[uid]++
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for uid, n := range machines {
		if n > 1 {
			t.doubles[uid] = true
		}
	}
}

func (t *town) twice() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Sorted(maps.Keys(t.doubles))
}

// residue is what there is besides what others have.
func (t *town) residue() []string {
	state := t.region.State()
	var names []string
	for _, vm := range state.VMs {
		if t.foreign.machines[vm.Name] == nil {
			names = append(names, "machine "+vm.Name)
		}
	}
	for _, m := range state.Machines {
		names = append(names, "machine "+m.Name+" of AKS's")
	}
	for _, nic := range state.NICs {
		if !t.foreign.parts[nic.Name] {
			names = append(names, "interface "+nic.Name)
		}
	}
	for _, disk := range state.Disks {
		if !t.foreign.parts[disk] {
			names = append(names, "disk "+disk)
		}
	}
	return names
}

// foreign is what others have in the same resource group.
type foreign struct {
	machines map[string]*azureemulator.VMState
	parts    map[string]bool // interfaces and disks
}

// touched are things of others that are gone or changed, or that somebody wrote to.
func (t *town) touched() []string {
	all := t.wire.touched()
	state := t.region.State()
	left := map[string]bool{}
	for _, vm := range state.VMs {
		left[vm.Name] = true
		if was := t.foreign.machines[vm.Name]; was != nil && (!maps.Equal(was.Tags, vm.Tags) || was.Power != vm.Power || !was.Created.Equal(vm.Created)) {
			all = append(all, vm.Name)
		}
	}
	for _, nic := range state.NICs {
		left[nic.Name] = true
	}
	for _, disk := range state.Disks {
		left[disk] = true
	}
	for name := range t.foreign.machines {
		if !left[name] {
			all = append(all, name)
		}
	}
	for name := range t.foreign.parts {
		if !left[name] {
			all = append(all, name)
		}
	}
	return all
}

// settle puts machines and interfaces of others into the region, besides the system
// pool that is there: of another cluster's karve, of nobody known, and some that look
// like ours at first sight.
func (t *town) settle(ctx context.Context) error {
	others := map[string]string{
		"aks-siege-1-0-other":   `"karve.dev_cluster": "other", "karve.dev_claim": "siege-1-0", "karve.dev_claim-uid": "uid-1-1-0", "karpenter.azure.com_cluster": "other"`,
		"aks-siege-2-0":         `"karpenter.azure.com_cluster": "other", "karpenter.sh_nodepool": "siege"`,
		"jumpbox":               `"team": "a"`,
		"aks-siege-3-0-nobodys": `"karve.dev_claim": "siege-3-0"`,
	}
	for name, tags := range others {
		for _, part := range []string{name + "-loose", name + "-nic"} {
			if err := t.putInterface(ctx, part, tags); err != nil {
				return err
			}
		}
		if err := t.put(ctx, "/providers/Microsoft.Compute/virtualMachines/"+name, t.machine(name, tags)); err != nil {
			return err
		}
	}
	if err := scarcity.Sleep(ctx, 10*time.Minute); err != nil { // until all of them run
		return err
	}
	state := t.region.State()
	t.foreign = foreign{machines: map[string]*azureemulator.VMState{}, parts: map[string]bool{}}
	for i := range state.VMs {
		t.foreign.machines[state.VMs[i].Name] = &state.VMs[i]
	}
	for _, nic := range state.NICs {
		t.foreign.parts[nic.Name] = true
	}
	for _, disk := range state.Disks {
		t.foreign.parts[disk] = true
	}
	return nil
}

// scatter leaves a loose interface beside one machine in twenty: its claim's, and to go with it.
func (t *town) scatter(ctx context.Context) error {
	for _, c := range t.snapshot() {
		if c.id == "" || c.order%20 != 0 {
			continue
		}
		tags := fmt.Sprintf(`"karve.dev_cluster": %q, "karve.dev_claim": %q, %q: %q`, clusterName, c.Name, tagClaimUID, c.UID)
		if err := t.putInterface(ctx, path.Base(c.id)+"-left", tags); err != nil {
			return err
		}
	}
	return nil
}

func (t *town) putInterface(ctx context.Context, name, tags string) error {
	return t.put(ctx, "/providers/Microsoft.Network/networkInterfaces/"+name,
		fmt.Sprintf(`{"location": %q, "tags": {%s}, "properties": {"ipConfigurations": [{"name": "ip", "properties": {"primary": true, "subnet": {"id": %q}}}]}}`,
			t.region.Location(), tags, t.region.SubnetID()))
}

func (t *town) group() string {
	return "/subscriptions/" + t.region.SubscriptionID() + "/resourceGroups/" + t.region.NodeResourceGroup()
}

// machine is the body of a machine of others.
func (t *town) machine(name, tags string) string {
	return fmt.Sprintf(`{"location": %q, "tags": {%s}, "properties": {
		"hardwareProfile": {"vmSize": %q},
		"storageProfile": {"osDisk": {"createOption": "FromImage", "diskSizeGB": 128},
			"imageReference": {"communityGalleryImageId": "/CommunityGalleries/AKSUbuntu-38d80f77-467a-481f-a8d4-09b6d4220bd2/images/2204gen2containerd"}},
		"osProfile": {"computerName": %q, "adminUsername": "azureuser"},
		"networkProfile": {"networkInterfaces": [{"id": "%s/providers/Microsoft.Network/networkInterfaces/%s-nic", "properties": {"primary": true}}]}}}`,
		t.region.Location(), tags, cheapest, name, t.group(), name)
}

func (t *town) put(ctx context.Context, resource, body string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, t.region.URL()+t.group()+resource+"?api-version=2024-07-01", strings.NewReader(body))
	if err != nil {
		return err
	}
	credential, err := t.region.Credential()
	if err != nil {
		return err
	}
	token, err := credential.GetToken(ctx, policy.TokenRequestOptions{})
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token.Token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := t.region.InProcess().Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if answer, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("PUT %s: %s: %s", resource, resp.Status, answer)
	}
	return nil
}

// wire is the way to Azure. It takes its time, and notes writes to what others have.
type wire struct {
	next   policy.Transporter
	others foreign

	mu    sync.Mutex
	wrote []string
}

func tap(next policy.Transporter, others foreign) *wire { return &wire{next: next, others: others} }

// Do passes a request on.
func (w *wire) Do(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet {
		w.note(req)
	}
	if err := scarcity.Travel(req); err != nil {
		return nil, err
	}
	return w.next.Do(req)
}

func (w *wire) note(req *http.Request) {
	name := path.Base(req.URL.Path)
	if w.others.machines[name] == nil && !w.others.parts[name] {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrote = append(w.wrote, req.Method+" "+name)
}

func (w *wire) touched() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.wrote)
}
