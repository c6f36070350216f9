// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

const diskKind = "Microsoft.Compute/disks"

// disk is an OS disk. Ephemeral ones are not resources and are not kept.
type disk struct {
	common
	sizeGB int
	sku    string
	zone   string
	vm     string // id of the VM it is attached to, or empty
	state  string
}

// disks are the OS disks of the subscription, and the sets that encrypt them.
type disks struct {
	byKey          map[string]*disk
	encryptionSets map[string]*common
	ops            *operations
	sub            *subscription
	clock          *clock
	latency        Distribution // of removing one
}

func (ds *disks) routes() []route {
	return []route{
		azure("GET", computeIn+"disks", "Disks.ListByResourceGroup", reads, ds.list),
		azure("GET", inSubscription+"/providers/microsoft.compute/disks", "Disks.List", reads, ds.list),
		azure("GET", computeIn+"disks/{disk}", "Disks.Get", reads, ds.get),
		azure("DELETE", computeIn+"disks/{disk}", "Disks.Delete", deletes, ds.deleteDisk),
		azure("GET", computeIn+"diskencryptionsets/{set}", "DiskEncryptionSets.Get", reads, ds.getEncryptionSet),
	}
}

// computePace is how often Compute asks to be polled.
const computePace = 10 * time.Second

func (d *disk) view() any {
	attachment := "Unattached"
	if d.vm != "" {
		attachment = "Attached"
	}
	view := d.common.view(diskKind, map[string]any{
		"provisioningState": d.state, "diskState": attachment, "diskSizeGB": d.sizeGB, "osType": "Linux",
		"timeCreated": stamp(d.created), "creationData": map[string]any{"createOption": "FromImage"},
	})
	view["sku"] = map[string]string{"name": d.sku}
	if d.vm != "" {
		view["managedBy"] = d.vm
	}
	if d.zone != "" {
		view["zones"] = []string{d.zone}
	}
	return view
}

// row is the disk in a list.
func (d *disk) row() (json.RawMessage, error) {
	return d.listed.of(looks{etag: d.etag, state: d.state, vm: d.vm}, d.view)
}

func (ds *disks) list(r *request) (reply, error) {
	ds.clock.Lock()
	defer ds.clock.Unlock()
	return list(ds.sub, r, ds.byKey, (*disk).row)
}

func (ds *disks) get(r *request) (reply, error) {
	ds.clock.Lock()
	defer ds.clock.Unlock()
	return show(find(ds.sub, r, ds.byKey, diskKind, "disk"))
}

func (ds *disks) deleteDisk(r *request) (reply, error) {
	ds.clock.Lock()
	defer ds.clock.Unlock()
	g, err := ds.sub.groupOf(r)
	if err != nil {
		return reply{}, err
	}
	d := ds.byKey[key(g.name, r.params["disk"])]
	if d == nil {
		return reply{status: http.StatusNoContent}, nil
	}
	if d.vm != "" {
		return reply{}, conflict("OperationNotAllowed", "Disk %s is attached to VM %s.", d.name, d.vm)
	}
	d.state = "Deleting"
	return ds.ops.accepted(ds.ops.run("Microsoft.Compute", computePace, ds.latency, func() { ds.remove(d) }))
}

func (ds *disks) remove(d *disk) {
	if ds.byKey[key(d.group, d.name)] == d {
		delete(ds.byKey, key(d.group, d.name))
	}
}

// addOS makes the VM's managed disk.
func (ds *disks) addOS(v *vm) {
	if v.spec.ephemeral() {
		return
	}
	spec := v.spec.Properties.StorageProfile.OSDisk
	id := ds.sub.resourceID(v.group, "Microsoft.Compute", "disks", spec.Name)
	d := &disk{common: ds.sub.newCommon(id, spec.Name, v.group), sizeGB: max(spec.DiskSizeGB, 30), sku: spec.ManagedDisk.StorageAccountType, zone: v.spec.zone(), vm: v.id, state: succeeded}
	if d.sku == "" {
		d.sku = "Standard_LRS"
		if v.size.PremiumIO {
			d.sku = "Premium_LRS"
		}
	}
	d.tags = v.tags
	v.osDisk = d
	ds.byKey[key(v.group, spec.Name)] = d
}

// check sees that an ephemeral OS disk fits where it is to be placed.
func (ds *disks) check(v *vm) error {
	d := v.spec.Properties.StorageProfile.OSDisk
	if !strings.EqualFold(d.CreateOption, "FromImage") {
		return invalidParameter("osDisk.createOption", "The emulator creates OS disks with createOption FromImage only, not '%s'.", d.CreateOption)
	}
	if other := ds.byKey[key(v.group, d.Name)]; other != nil && other != v.osDisk {
		return conflict("ConflictingUserInput", "Disk '%s' already exists in resource group %s. Only CreateOption.Attach is supported.", d.Name, strings.ToUpper(v.group))
	}
	if !v.spec.ephemeral() {
		return nil
	}
	if !strings.EqualFold(d.Caching, "ReadOnly") {
		return invalidParameter("osDisk.caching", "Caching type must be ReadOnly for Ephemeral OS disks.")
	}
	placement := d.DiffDiskSettings.Placement
	room := v.size.RoomForOSDisk(placement)
	if room == 0 {
		return invalidParameter("osDisk.diffDiskSettings", "OS disk of Ephemeral VM with DiffDiskPlacement '%s' is not supported for VM size %s.", placement, v.size.Name)
	}
	if asked := max(d.DiskSizeGB, 30); asked > room {
		return invalidParameter("osDisk.diskSizeGB", "OS disk of Ephemeral VM with size greater than %d GB is not allowed for VM size %s when the DiffDiskPlacement is %s.", room, v.size.Name, placement)
	}
	return nil
}

func (ds *disks) release(v *vm) {
	if v.osDisk == nil {
		return
	}
	v.osDisk.vm = ""
	if strings.EqualFold(v.spec.Properties.StorageProfile.OSDisk.DeleteOption, "Delete") {
		ds.remove(v.osDisk)
	}
}

const encryptionSetKind = "Microsoft.Compute/diskEncryptionSets"

// addEncryptionSet makes a set in the node resource group and returns its ID.
func (ds *disks) addEncryptionSet(name string) string {
	ds.clock.Lock()
	defer ds.clock.Unlock()
	group := ds.sub.nodeGroup
	id := ds.sub.resourceID(group, "Microsoft.Compute", "diskEncryptionSets", name)
	set := ds.sub.newCommon(id, name, group)
	ds.encryptionSets[key(group, name)] = &set
	return id
}

func (ds *disks) getEncryptionSet(r *request) (reply, error) {
	ds.clock.Lock()
	defer ds.clock.Unlock()
	set, err := find(ds.sub, r, ds.encryptionSets, encryptionSetKind, "set")
	if err != nil {
		return reply{}, err
	}
	return ok(set.view(encryptionSetKind, map[string]any{"provisioningState": succeeded, "encryptionType": "EncryptionAtRestWithCustomerKey"}))
}

// checkEncryption refuses a set that does not exist.
func (ds *disks) checkEncryption(v *vm) error {
	id := v.spec.Properties.StorageProfile.OSDisk.ManagedDisk.DiskEncryptionSet.ID
	if id == "" {
		return nil
	}
	for _, set := range ds.encryptionSets {
		if strings.EqualFold(set.id, id) {
			return nil
		}
	}
	return refuse(http.StatusNotFound, "DiskEncryptionSetNotFound", "The disk encryption set '%s' was not found.", id)
}
