// SPDX-License-Identifier: Apache-2.0

package azureemulator_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/karve-dev/karve/azureemulator"
)

func TestEvictionWithPolicyDelete(t *testing.T) {
	g := preemptible{newGuest(), make(chan string, 1)}
	a := start(t, azureemulator.Options{SystemNodes: -1, Guest: g, TimeScale: 0.001})
	a.mustCreate("spot", a.spot("Standard_D4s_v5", "1", "Delete"))
	<-g.booted
	if _, err := a.vms.SimulateEviction(t.Context(), a.group, "spot", nil); err != nil {
		t.Fatal(err)
	}
	if vm := <-g.noticed; vm != "spot" {
		t.Errorf("notice for %s", vm)
	}
	if err := <-g.ended; !errors.Is(err, azureemulator.ErrEvicted) {
		t.Errorf("guest ended by %v, want ErrEvicted", err)
	}
	eventually(t, "the VM to go", func() bool { return len(a.State().VMs) == 0 })
	state := a.State()
	if len(state.NICs) != 0 || len(state.Disks) != 0 || len(state.Usages) != 0 {
		t.Errorf("the eviction left %+v", state)
	}
}

// preemptible is a guest that listens for scheduled events.
type preemptible struct {
	guest
	noticed chan string
}

func (p preemptible) Preempt(vm string, _ azureemulator.Preemption) { p.noticed <- vm }

func TestEvictionWithPolicyDeallocate(t *testing.T) {
	g := newGuest()
	a := start(t, azureemulator.Options{SystemNodes: -1, Guest: g})
	a.mustCreate("spot", a.spot("Standard_D4s_v5", "1", "Deallocate"))
	<-g.booted
	if err := a.VMs.Evict("spot", 0); err != nil {
		t.Fatal(err)
	}
	if err := <-g.ended; !errors.Is(err, azureemulator.ErrEvicted) {
		t.Errorf("guest ended by %v, want ErrEvicted", err)
	}
	eventually(t, "the VM to be deallocated", func() bool { return a.State().VMs[0].Power == "deallocated" })
	if got := a.used("lowPriorityCores"); got != 4 {
		t.Errorf("%d cores in use; a deallocated VM keeps its 4", got)
	}

	poller, err := a.vms.BeginStart(t.Context(), a.group, "spot", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := poller.PollUntilDone(t.Context(), often()); err != nil {
		t.Fatal(err)
	}
	if m := <-g.booted; m.Name != "spot" {
		t.Errorf("booted %s", m.Name)
	}
}

func TestOnlySpotVMsAreEvicted(t *testing.T) {
	a := start(t, azureemulator.Options{})
	a.mustCreate("vm", a.vmBody("Standard_D4s_v5", "1"))
	_, err := a.vms.SimulateEviction(t.Context(), a.group, "vm", nil)
	wantCode(t, err, http.StatusConflict, "OperationNotAllowed")
	if err := a.VMs.Evict("vm", 0); err == nil {
		t.Errorf("a regular VM was evicted")
	}
	if err := a.VMs.Evict("nobody", 0); err == nil {
		t.Errorf("an unknown VM was evicted")
	}
}

func TestDeallocateAndStart(t *testing.T) {
	g := newGuest()
	a := start(t, azureemulator.Options{SystemNodes: -1, Guest: g})
	a.mustCreate("vm", a.vmBody("Standard_D4s_v5", "1"))
	first := <-g.booted
	poller, err := a.vms.BeginDeallocate(t.Context(), a.group, "vm", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := poller.PollUntilDone(t.Context(), often()); err != nil {
		t.Fatal(err)
	}
	if err := <-g.ended; !errors.Is(err, azureemulator.ErrDeallocated) {
		t.Errorf("guest ended by %v, want ErrDeallocated", err)
	}
	_, err = a.exts.BeginCreateOrUpdate(t.Context(), a.group, "vm", "late", billing(), nil)
	wantCode(t, err, http.StatusConflict, "OperationNotAllowed")

	if err := a.Capacity.AddStockout(azureemulator.Stockout{}); err != nil {
		t.Fatal(err)
	}
	wantCode(t, a.startVM("vm"), http.StatusOK, "ZonalAllocationFailed")
	a.Capacity.ClearStockouts("", "", "")
	if err := a.startVM("vm"); err != nil {
		t.Fatal(err)
	}
	if again := <-g.booted; again.PrivateIP != first.PrivateIP {
		t.Errorf("address %s after the start, %s before", again.PrivateIP, first.PrivateIP)
	}
}

func (a *azure) startVM(name string) error {
	poller, err := a.vms.BeginStart(a.t.Context(), a.group, name, nil)
	if err == nil {
		_, err = poller.PollUntilDone(a.t.Context(), often())
	}
	return err
}

func TestPutIsIdempotent(t *testing.T) {
	a := start(t, azureemulator.Options{SystemNodes: -1, TimeScale: 0.002})
	vm := a.vmBody("Standard_D4s_v5", "1")
	first, err := a.vms.BeginCreateOrUpdate(t.Context(), a.group, "vm", vm, nil)
	if err != nil {
		t.Fatal(err)
	}
	second, err := a.vms.BeginCreateOrUpdate(t.Context(), a.group, "VM", vm, nil)
	if err != nil {
		t.Fatal(err)
	}
	one, err := first.PollUntilDone(t.Context(), often())
	if err != nil {
		t.Fatal(err)
	}
	two, err := second.PollUntilDone(t.Context(), often())
	if err != nil {
		t.Fatal(err)
	}
	if *one.Properties.VMID != *two.Properties.VMID || *one.ID != *two.ID || len(a.State().VMs) != 1 {
		t.Errorf("the same request made two VMs: %s and %s", *one.ID, *two.ID)
	}
	// What a GET returned can be put back.
	a.mustCreate("vm", one.VirtualMachine)

	for property, change := range map[string]func(*armcompute.VirtualMachine){
		"zones": func(v *armcompute.VirtualMachine) { v.Zones = []*string{to.Ptr("2")} },
		"hardwareProfile.vmSize": func(v *armcompute.VirtualMachine) {
			v.Properties.HardwareProfile.VMSize = to.Ptr(armcompute.VirtualMachineSizeTypes("Standard_D8s_v5"))
		},
		"osProfile.customData":    func(v *armcompute.VirtualMachine) { v.Properties.OSProfile.CustomData = to.Ptr("eHl6") },
		"osProfile.adminUsername": func(v *armcompute.VirtualMachine) { v.Properties.OSProfile.AdminUsername = to.Ptr("root") },
		"osDisk.diskSizeGB":       func(v *armcompute.VirtualMachine) { v.Properties.StorageProfile.OSDisk.DiskSizeGB = to.Ptr[int32](256) },
		"priority": func(v *armcompute.VirtualMachine) {
			v.Properties.Priority = to.Ptr(armcompute.VirtualMachinePriorityTypesSpot)
		},
	} {
		changed := a.vmBody("Standard_D4s_v5", "1")
		change(&changed)
		_, err := a.create("vm", changed)
		refusal := wantCode(t, err, http.StatusConflict, "PropertyChangeNotAllowed")
		if !strings.Contains(refusal.Error(), "Changing property '"+property+"' is not allowed.") {
			t.Errorf("changing %s: %v", property, refusal)
		}
	}
}

func TestPatch(t *testing.T) {
	a := start(t, azureemulator.Options{SystemNodes: -1})
	a.mustCreate("vm", a.vmBody("Standard_D4s_v5", "1"))
	identity := "/subscriptions/s/resourceGroups/r/providers/Microsoft.ManagedIdentity/userAssignedIdentities/kubelet"
	poller, err := a.vms.BeginUpdate(t.Context(), a.group, "vm", armcompute.VirtualMachineUpdate{
		Tags: map[string]*string{"owner": to.Ptr("me")},
		Identity: &armcompute.VirtualMachineIdentity{
			Type:                   to.Ptr(armcompute.ResourceIdentityTypeUserAssigned),
			UserAssignedIdentities: map[string]*armcompute.UserAssignedIdentitiesValue{identity: {}},
		},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	patched, err := poller.PollUntilDone(t.Context(), often())
	if err != nil {
		t.Fatal(err)
	}
	if len(patched.Tags) != 1 || *patched.Tags["owner"] != "me" || *patched.Identity.UserAssignedIdentities[identity].PrincipalID == "" {
		t.Errorf("tags %v, identity %+v", patched.Tags, patched.Identity)
	}
	if *patched.Properties.HardwareProfile.VMSize != "Standard_D4s_v5" || len(patched.Properties.NetworkProfile.NetworkInterfaces) != 1 {
		t.Errorf("the patch lost properties: %+v", patched.Properties)
	}
	_, err = a.vms.BeginUpdate(t.Context(), a.group, "vm", armcompute.VirtualMachineUpdate{Zones: []*string{to.Ptr("3")}}, nil)
	wantCode(t, err, http.StatusConflict, "PropertyChangeNotAllowed")
}

func TestDeletionOvertakesCreation(t *testing.T) {
	g := newGuest()
	a := start(t, azureemulator.Options{SystemNodes: -1, Guest: g, TimeScale: 1,
		Latency: azureemulator.Latency{Delete: azureemulator.Distribution{Median: time.Millisecond}}})
	poller, err := a.vms.BeginCreateOrUpdate(t.Context(), a.group, "vm", a.vmBody("Standard_D4s_v5", "1"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.vms.BeginDelete(t.Context(), a.group, "vm", nil); err != nil {
		t.Fatal(err)
	}
	_, err = poller.Poll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = poller.Result(t.Context())
	wantCode(t, err, http.StatusOK, "OperationPreempted")
	eventually(t, "the VM to go", func() bool { return len(a.State().VMs)+len(a.State().NICs) == 0 })
	if len(g.booted) != 0 {
		t.Errorf("a VM deleted before its time booted")
	}
}

func TestExtensions(t *testing.T) {
	a := start(t, azureemulator.Options{})
	a.mustCreate("vm", a.vmBody("Standard_D4s_v5", "1"))
	poller, err := a.exts.BeginCreateOrUpdate(t.Context(), a.group, "vm", "computeAksLinuxBilling", billing(), nil)
	if err != nil {
		t.Fatal(err)
	}
	made, err := poller.PollUntilDone(t.Context(), often())
	if err != nil {
		t.Fatal(err)
	}
	if *made.Properties.ProvisioningState != "Succeeded" || *made.Properties.Type != "Compute.AKS.Linux.Billing" || made.Properties.ProtectedSettings != nil {
		t.Errorf("extension %+v", made.Properties)
	}
	updater, err := a.exts.BeginUpdate(t.Context(), a.group, "vm", "computeAksLinuxBilling", armcompute.VirtualMachineExtensionUpdate{Tags: map[string]*string{"a": to.Ptr("b")}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	updated, err := updater.PollUntilDone(t.Context(), often())
	if err != nil || *updated.Tags["a"] != "b" || *updated.Properties.Publisher != "Microsoft.AKS" {
		t.Errorf("updated extension %+v, %v", updated, err)
	}
	_, err = a.exts.BeginUpdate(t.Context(), a.group, "vm", "other", armcompute.VirtualMachineExtensionUpdate{}, nil)
	wantCode(t, err, http.StatusNotFound, "ResourceNotFound")
	remover, err := a.exts.BeginDelete(t.Context(), a.group, "vm", "computeAksLinuxBilling", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := remover.PollUntilDone(t.Context(), often()); err != nil {
		t.Fatal(err)
	}
	_, err = a.exts.Get(t.Context(), a.group, "vm", "computeAksLinuxBilling", nil)
	wantCode(t, err, http.StatusNotFound, "ResourceNotFound")
}

func billing() armcompute.VirtualMachineExtension {
	return armcompute.VirtualMachineExtension{
		Location: to.Ptr("eastus"),
		Properties: &armcompute.VirtualMachineExtensionProperties{
			Publisher: to.Ptr("Microsoft.AKS"), Type: to.Ptr("Compute.AKS.Linux.Billing"), TypeHandlerVersion: to.Ptr("1.0"),
			AutoUpgradeMinorVersion: to.Ptr(true), ProtectedSettings: map[string]any{"secret": "s"},
		},
	}
}

func TestDiskOutlivesItsVMUnlessTold(t *testing.T) {
	a := start(t, azureemulator.Options{SystemNodes: -1})
	vm := a.vmBody("Standard_D4s_v5", "1")
	vm.Properties.StorageProfile.OSDisk.DeleteOption = nil
	vm.Properties.StorageProfile.OSDisk.Name = to.Ptr("os")
	a.mustCreate("vm", vm)
	_, err := a.disks.BeginDelete(t.Context(), a.group, "os", nil)
	wantCode(t, err, http.StatusConflict, "OperationNotAllowed")
	a.mustRemove("vm")
	disk, err := a.disks.Get(t.Context(), a.group, "os", nil)
	if err != nil || *disk.Properties.DiskState != armcompute.DiskStateUnattached || *disk.Properties.DiskSizeGB != 128 {
		t.Fatalf("disk %+v, %v", disk.Properties, err)
	}
	_, err = a.create("vm", vm)
	wantCode(t, err, http.StatusConflict, "ConflictingUserInput")
	poller, err := a.disks.BeginDelete(t.Context(), a.group, "os", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := poller.PollUntilDone(t.Context(), often()); err != nil {
		t.Fatal(err)
	}
	a.mustCreate("vm", vm)
}
