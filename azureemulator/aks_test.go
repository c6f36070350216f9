// SPDX-License-Identifier: Apache-2.0

package azureemulator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	aks "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerservice/armcontainerservice/v9"

	"github.com/karve-dev/karve/azureemulator"
)

// pool is the agent pool of single machines.
type pool struct {
	*azure
	machines *aks.MachinesClient
	pools    *aks.AgentPoolsClient
}

func startPool(t *testing.T, o azureemulator.Options) *pool {
	t.Helper()
	o.SystemNodes = -1
	a := start(t, o)
	credential, err := a.Credential()
	if err != nil {
		t.Fatal(err)
	}
	clients, err := aks.NewClientFactory(a.SubscriptionID(), credential, a.ClientOptions())
	if err != nil {
		t.Fatal(err)
	}
	return &pool{azure: a, machines: clients.NewMachinesClient(), pools: clients.NewAgentPoolsClient()}
}

func aMachine(size, zone string) aks.Machine {
	m := aks.Machine{Properties: &aks.MachineProperties{
		Hardware:         &aks.MachineHardwareProfile{VMSize: to.Ptr(size)},
		OperatingSystem:  &aks.MachineOSProfile{OSDiskType: to.Ptr(aks.OSDiskTypeManaged), OSSKU: to.Ptr(aks.OSSKUUbuntu2204)},
		Kubernetes:       &aks.MachineKubernetesProfile{OrchestratorVersion: to.Ptr("1.36.3")},
		NodeImageVersion: to.Ptr("AKSUbuntu-2204gen2containerd-202511.02.0"),
		Tags:             map[string]*string{"team": to.Ptr("a")},
	}}
	if zone != "" {
		m.Zones = []*string{to.Ptr(zone)}
	}
	return m
}

func (p *pool) put(ctx context.Context, name string, m aks.Machine, o *aks.MachinesClientBeginCreateOrUpdateOptions) (aks.Machine, error) {
	poller, err := p.machines.BeginCreateOrUpdate(ctx, p.ClusterResourceGroup(), "karve", p.MachinesPool(), name, m, o)
	if err != nil {
		return aks.Machine{}, err
	}
	done, err := poller.PollUntilDone(ctx, often())
	return done.Machine, err
}

func (p *pool) get(name string) (aks.Machine, error) {
	m, err := p.machines.Get(p.t.Context(), p.ClusterResourceGroup(), "karve", p.MachinesPool(), name, nil)
	return m.Machine, err
}

func (p *pool) remove(names ...string) error {
	poller, err := p.pools.BeginDeleteMachines(p.t.Context(), p.ClusterResourceGroup(), "karve", p.MachinesPool(),
		aks.AgentPoolDeleteMachinesParameter{MachineNames: to.SliceOfPtrs(names...)}, nil)
	if err == nil {
		_, err = poller.PollUntilDone(p.t.Context(), often())
	}
	return err
}

// batched is the context of a request that makes several machines.
func (p *pool) batched(zone string, names ...string) context.Context {
	var entries []map[string]any
	for _, name := range names {
		entries = append(entries, map[string]any{"machineName": name, "zones": []string{zone}, "tags": map[string]string{"name": name}})
	}
	header, err := json.Marshal(map[string]any{"batchMachines": entries})
	if err != nil {
		p.t.Fatal(err)
	}
	return policy.WithHTTPHeader(p.t.Context(), http.Header{"BatchPutMachine": {string(header)}})
}

func codeOf(t *testing.T, err error) (string, int) {
	t.Helper()
	var refusal *azcore.ResponseError
	if !errors.As(err, &refusal) {
		t.Fatalf("got %v, want a refusal", err)
	}
	return refusal.ErrorCode, refusal.StatusCode
}

// A machine has a virtual machine and an interface behind it, and takes both along.
func TestMachineHasAVirtualMachineBehindIt(t *testing.T) {
	p := startPool(t, azureemulator.Options{})
	m, err := p.put(t.Context(), "web-a", aMachine("Standard_D4s_v5", "1"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if m, err = p.get("web-a"); err != nil || *m.Properties.ProvisioningState != "Succeeded" {
		t.Fatalf("the machine is %+v, %v", m.Properties, err)
	}
	id := *m.Properties.ResourceID
	name := id[strings.LastIndex(id, "/")+1:]
	if !strings.HasPrefix(name, "aks-machines-web-a-") || !strings.HasSuffix(name, "-vm") {
		t.Errorf("its virtual machine is called %s", name)
	}
	vm, err := p.vms.Get(t.Context(), p.group, name, nil)
	if err != nil || *vm.Zones[0] != "1" || *vm.Tags["team"] != "a" {
		t.Errorf("its virtual machine is %+v, %v", vm, err)
	}
	if nics := p.State().NICs; len(nics) != 1 || !strings.HasSuffix(nics[0].VM, name) {
		t.Errorf("interfaces: %+v", nics)
	}
	if err := p.remove("web-a"); err != nil {
		t.Fatal(err)
	}
	if s := p.State(); len(s.Machines)+len(s.VMs)+len(s.NICs)+len(s.Disks) > 0 {
		t.Errorf("left behind: %+v", s)
	}
	if _, err := p.get("web-a"); err == nil {
		t.Error("the machine is still there")
	}
	if code, status := codeOf(t, p.remove("web-a")); code != "InvalidParameter" || status != http.StatusBadRequest {
		t.Errorf("deleting nothing: %d %s", status, code)
	}
}

// What Compute refuses fails the machine that AKS has accepted.
func TestMachineFailsWhenComputeRefuses(t *testing.T) {
	for name, o := range map[string]struct {
		options azureemulator.Options
		stock   string
		code    string
		vms     int
	}{
		"quota":    {options: azureemulator.Options{RegionalCores: 2}, code: "QuotaExceeded"},
		"stock":    {stock: azureemulator.SkuNotAvailable, code: "SkuNotAvailable"},
		"late":     {stock: azureemulator.ZonalAllocationFailed, code: "ZonalAllocationFailed", vms: 1},
		"no limit": {},
	} {
		t.Run(name, func(t *testing.T) {
			p := startPool(t, o.options)
			if o.stock != "" {
				if err := p.Capacity.AddStockout(azureemulator.Stockout{Mode: o.stock}); err != nil {
					t.Fatal(err)
				}
			}
			_, err := p.put(t.Context(), "web-a", aMachine("Standard_D4s_v5", "1"), nil)
			if o.code == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil {
				t.Error("it came up")
			}
			m, err := p.get("web-a")
			if err != nil || *m.Properties.ProvisioningState != "Failed" || *m.Properties.Status.ProvisioningError.Code != o.code ||
				len(m.Properties.Status.ProvisioningError.Details) != 1 {
				t.Errorf("the machine is %+v, %v", m.Properties, err)
			}
			if n := len(p.State().VMs); n != o.vms {
				t.Errorf("%d virtual machines", n)
			}
			if err := p.remove("web-a"); err != nil {
				t.Error(err)
			}
			if s := p.State(); len(s.Machines)+len(s.VMs)+len(s.NICs) > 0 {
				t.Errorf("left behind: %+v", s)
			}
		})
	}
}

// One request makes many machines, each with its own zone and tags; those it refuses
// keep no other from being made.
func TestMachinesInBatches(t *testing.T) {
	p := startPool(t, azureemulator.Options{PageSize: 2})
	body := aMachine("Standard_D4s_v5", "")
	if _, err := p.put(p.batched("2", "a", "b", "c"), "a", body, nil); err != nil {
		t.Fatal(err)
	}
	_, err := p.put(p.batched("1", "d", "Upper", "b"), "d", body, nil)
	if code, status := codeOf(t, err); code != "BatchMachineClientError" || status != http.StatusBadRequest {
		t.Errorf("a batch with a wrong name: %d %s", status, code)
	}
	if text := err.Error(); !strings.Contains(text, `"target": "Upper"`) || !strings.Contains(text, `"target": "b"`) {
		t.Errorf("it does not say which: %s", text)
	}
	var names []string
	for pager := p.machines.NewListPager(p.ClusterResourceGroup(), "karve", p.MachinesPool(), nil); pager.More(); {
		page, err := pager.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range page.Value {
			names = append(names, *m.Name+*m.Zones[0]+*m.Properties.Tags["name"])
		}
	}
	if got := fmt.Sprint(names); got != "[a2a b2b c2c d1d]" {
		t.Errorf("machines: %s", got)
	}
	many := make([]string, 51)
	for i := range many {
		many[i] = fmt.Sprint("m", i)
	}
	if _, err := p.put(p.batched("1", many...), "m0", body, nil); err == nil {
		t.Error("51 machines in one batch")
	}
}

func TestMachineRefusals(t *testing.T) {
	p := startPool(t, azureemulator.Options{})
	none := &aks.MachinesClientBeginCreateOrUpdateOptions{IfNoneMatch: to.Ptr("*")}
	if _, err := p.put(t.Context(), "a", aMachine("Standard_D4s_v5", "1"), none); err != nil {
		t.Fatal(err)
	}
	if _, err := p.put(t.Context(), "a", aMachine("Standard_D4s_v5", "1"), nil); err != nil {
		t.Errorf("the same again: %v", err)
	}
	for name, c := range map[string]struct {
		machine string
		body    aks.Machine
		options *aks.MachinesClientBeginCreateOrUpdateOptions
		code    string
	}{
		"exists":     {machine: "a", body: aMachine("Standard_D4s_v5", "1"), options: none, code: "PreconditionFailed"},
		"other size": {machine: "a", body: aMachine("Standard_D8s_v5", "1"), code: "PropertyChangeNotAllowed"},
		"no size":    {machine: "b", body: aMachine("Standard_Z9", "1"), code: "VMSizeNotSupported"},
		"no zone":    {machine: "b", body: aMachine("Standard_D4s_v5", "9"), code: "InvalidParameter"},
		"long name":  {machine: strings.Repeat("a", 36), body: aMachine("Standard_D4s_v5", "1"), code: "InvalidParameter"},
	} {
		_, err := p.put(t.Context(), c.machine, c.body, c.options)
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		if code, _ := codeOf(t, err); code != c.code {
			t.Errorf("%s: %s, want %s", name, code, c.code)
		}
	}
	_, err := p.machines.Get(t.Context(), p.ClusterResourceGroup(), "karve", "no", "a", nil)
	if code, status := codeOf(t, err); code != "NotFound" || status != http.StatusNotFound {
		t.Errorf("no pool: %d %s", status, code)
	}
}

// A machine whose virtual machine is taken away remains, and says so; one that would be
// made anew says why.
func TestMachineStatus(t *testing.T) {
	p := startPool(t, azureemulator.Options{})
	if _, err := p.put(t.Context(), "a", aMachine("Standard_D4s_v5", "1"), nil); err != nil {
		t.Fatal(err)
	}
	if err := p.VMs.DriftMachine("a", "NodeImage"); err != nil {
		t.Fatal(err)
	}
	m, err := p.get("a")
	if err != nil || *m.Properties.Status.DriftAction != aks.DriftActionRecreate || *m.Properties.Status.DriftReason != "NodeImage" {
		t.Errorf("drifted: %+v, %v", m.Properties.Status, err)
	}
	deleted, err := p.vms.BeginDelete(t.Context(), p.group, p.State().VMs[0].Name, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := deleted.PollUntilDone(t.Context(), often()); err != nil {
		t.Fatal(err)
	}
	if m, err = p.get("a"); err != nil || *m.Properties.Status.VMState != aks.VMStateDeleted {
		t.Errorf("taken away: %+v, %v", m.Properties, err)
	}
}
