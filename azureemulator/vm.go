// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"context"
	"encoding/json"
	"maps"
	"strings"

	"github.com/karve-dev/karve/azureemulator/catalog"
)

const vmKind = "Microsoft.Compute/virtualMachines"

// vm is a VM. The clock's lock guards it.
type vm struct {
	common
	vmID string
	vmRequest
	size  catalog.Size
	state string // provisioningState
	power string // of the PowerState status; empty before allocation
	// nics are in the order asked for, the primary one first if none says so.
	nics []attachedNIC
	// osDisk is nil for an ephemeral disk.
	osDisk     *disk
	extensions map[string]*extension
	// failure is why provisioningState is Failed.
	failure *Error
	// at is the operation that is working on the VM, or nil.
	at *operation
	// life counts allocations, stops and the like; what was put on the agenda
	// in a former life is void.
	life int
	// stopGuest ends the guest that runs now; nil when none does.
	stopGuest context.CancelCauseFunc
	// events are those announced to the VM, and incarnation counts their changes.
	events      []*scheduledEvent
	incarnation int
	// stuck is a deletion that will not end unless it is asked for again.
	stuck bool
	// system VMs were there from the start, in the cluster's system pool, and run no guest.
	system bool
	// machine is AKS's, if AKS made this one.
	machine *aksMachine
}

type attachedNIC struct {
	nic     *nic
	primary bool
	cascade bool // deleteOption Delete
}

// Values of provisioningState and of the power state.
const (
	creating = "Creating"
	updating = "Updating"
	deleting = "Deleting"
	canceled = "Canceled"

	starting     = "starting"
	running      = "running"
	deallocating = "deallocating"
	deallocated  = "deallocated"
)

// row is the VM in a list.
func (v *vm) row() (json.RawMessage, error) {
	return v.listed.of(looks{etag: v.etag, state: v.state, nics: len(v.nics), disk: v.osDisk}, func() any { return v.view() })
}

// view is the VM as a GET shows it: what was asked for, with what Azure
// knows better.
func (v *vm) view() map[string]any {
	properties := maps.Clone(object(v.document["properties"]))
	properties["provisioningState"] = v.state
	properties["vmId"] = v.vmID
	properties["timeCreated"] = stamp(v.created)
	properties["storageProfile"] = v.storageView(object(properties["storageProfile"]))
	properties["networkProfile"] = v.networkView()
	view := v.common.view(vmKind, properties)
	if v.spec.zone() != "" {
		view["zones"] = v.spec.Zones
	}
	if asked, given := v.document["identity"]; given {
		view["identity"] = identityView(object(asked))
	}
	if plan, given := v.document["plan"]; given {
		view["plan"] = plan
	}
	return view
}

// identityView adds to each user-assigned identity the ids Azure knows it by;
// they follow from its name.
func identityView(asked map[string]any) any {
	view, assigned := maps.Clone(asked), map[string]any{}
	for id := range object(asked["userAssignedIdentities"]) {
		assigned[id] = map[string]string{"principalId": uuidOf("principal", strings.ToLower(id)), "clientId": uuidOf("client", strings.ToLower(id))}
	}
	if len(assigned) > 0 {
		view["userAssignedIdentities"] = assigned
	}
	return view
}

func (v *vm) storageView(asked map[string]any) any {
	storage := maps.Clone(asked)
	osDisk := maps.Clone(object(asked["osDisk"]))
	osDisk["osType"] = "Linux"
	osDisk["name"] = v.spec.Properties.StorageProfile.OSDisk.Name
	if v.osDisk != nil {
		managed := maps.Clone(object(osDisk["managedDisk"]))
		managed["id"], managed["storageAccountType"] = v.osDisk.id, v.osDisk.sku
		osDisk["managedDisk"] = managed
		osDisk["diskSizeGB"] = v.osDisk.sizeGB
	}
	storage["osDisk"] = osDisk
	return storage
}

func (v *vm) networkView() any {
	references := []any{}
	for _, a := range v.nics {
		option := "Detach"
		if a.cascade {
			option = "Delete"
		}
		references = append(references, map[string]any{
			"id": a.nic.id, "properties": map[string]any{"primary": a.primary, "deleteOption": option},
		})
	}
	return map[string]any{"networkInterfaces": references}
}

// instanceView is what $expand=instanceView adds.
func (v *vm) instanceView() any {
	state := status("ProvisioningState/"+strings.ToLower(v.state), "Provisioning "+strings.ToLower(v.state))
	if v.failure != nil {
		state["level"], state["message"] = "Error", v.failure.Message
		state["code"] = "ProvisioningState/failed/" + v.failure.Code
	}
	statuses := []any{state}
	if v.power != "" {
		statuses = append(statuses, status("PowerState/"+v.power, "VM "+v.power))
	}
	return map[string]any{"computerName": v.spec.Properties.OSProfile.ComputerName, "hyperVGeneration": "V2", "statuses": statuses}
}

func status(code, display string) map[string]any {
	return map[string]any{"code": code, "level": "Info", "displayStatus": display}
}

// change lays a later body over the VM's, if it changes nothing immutable.
func (v *vm) change(w vmRequest, etag string) error {
	if p := changedProperty(v.spec, w.spec); p != "" {
		return changeNotAllowed(p)
	}
	if size := w.spec.Properties.HardwareProfile.VMSize; size != "" && !strings.EqualFold(size, v.size.Name) {
		// Azure would restart the VM in the new size. No client that creates
		// VMs for pods wants that, so it counts as a mistake here.
		return changeNotAllowed("hardwareProfile.vmSize")
	}
	if w.customData != nil && string(w.customData) != string(v.customData) {
		return changeNotAllowed("osProfile.customData")
	}
	if changed := v.changedInterface(w.spec.Properties.NetworkProfile); changed {
		return changeNotAllowed("networkProfile.networkInterfaces")
	}
	v.document = merged(v.document, w.document)
	if w.spec.Tags != nil {
		v.tags, v.spec.Tags = w.spec.Tags, w.spec.Tags
	}
	v.etag = etag
	return nil
}

// changedInterface says whether n names interfaces, and others than the
// VM's.
func (v *vm) changedInterface(n networkProfile) bool {
	if len(n.Interfaces) == 0 {
		return false
	}
	if len(n.Interfaces) != len(v.nics) {
		return true
	}
	for i, reference := range n.Interfaces {
		if !strings.EqualFold(reference.ID, v.nics[i].nic.id) {
			return true
		}
	}
	return false
}

func beingDeleted(v *vm) *Error {
	return conflict("OperationNotAllowed", "Operation 'update' is not allowed on VM '%s' since the VM is marked for deletion. You can only retry the Delete operation (or wait for an ongoing one to complete).", v.name)
}

// endGuest stops what runs on the VM. Callers hold the lock.
func (v *vm) endGuest(cause error) {
	v.life++
	if v.stopGuest != nil {
		v.stopGuest(cause)
		v.stopGuest = nil
	}
}

// address is that of the primary interface; empty when there is none.
func (v *vm) address() (ip string) {
	for i, a := range v.nics {
		if i == 0 || a.primary {
			ip = a.nic.address()
		}
	}
	return ip
}

// setSize has the VM be of a size, in its document too.
func (v *vm) setSize(size catalog.Size) {
	v.size = size
	v.spec.Properties.HardwareProfile.VMSize = size.Name
	hardware := map[string]any{"hardwareProfile": map[string]any{"vmSize": size.Name}}
	v.document = merged(v.document, map[string]any{"properties": hardware})
}
