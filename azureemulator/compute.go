// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// compute answers requests about VMs.
type compute struct {
	vms       *virtualMachines
	sizes     *sizes
	galleries *galleries
	disks     *disks
	nics      *interfaces
	quota     *quota
	stock     *stock
	quirks    *quirks
	identity  *identity
	fabric    *fabric
	ops       *operations
	sub       *subscription
	clock     *clock
	chance    *chance
	log       *slog.Logger
}

func (c *compute) routes() []route {
	const vm = computeIn + "virtualmachines"
	return []route{
		azure("PUT", vm+"/{vm}", "VirtualMachines.CreateOrUpdate", writeVM, c.putVM),
		azure("PATCH", vm+"/{vm}", "VirtualMachines.Update", updateVM, c.patchVM),
		azure("GET", vm+"/{vm}", "VirtualMachines.Get", readVM, c.getVM),
		azure("GET", vm+"/{vm}/instanceview", "VirtualMachines.InstanceView", readVM, c.getInstanceView),
		azure("GET", vm, "VirtualMachines.List", listVM, c.listVMs),
		azure("GET", inSubscription+"/providers/microsoft.compute/virtualmachines", "VirtualMachines.ListAll", listVM, c.listVMs),
		azure("DELETE", vm+"/{vm}", "VirtualMachines.Delete", deleteVM, c.deleteVM),
		azure("POST", vm+"/{vm}/deallocate", "VirtualMachines.Deallocate", deleteVM, c.deallocateVM),
		azure("POST", vm+"/{vm}/start", "VirtualMachines.Start", updateVM, c.startVM),
	}
}

// putVM creates a VM, or looks at one that is there.
func (c *compute) putVM(r *request) (reply, error) {
	w, err := readVMRequest(r.body)
	if err != nil {
		return reply{}, err
	}
	if err := c.identity.authoriseShared(r, w); err != nil {
		return reply{}, err
	}
	c.clock.Lock()
	defer c.clock.Unlock()
	g, err := c.sub.groupOf(r)
	if err != nil {
		return reply{}, err
	}
	v := c.vms.in(g.name, r.params["vm"])
	if v == nil {
		if v, err = c.create(g.name, r.params["vm"], w); err != nil {
			return reply{}, err
		}
		return c.created(v, http.StatusCreated)
	}
	return c.putAgain(v, w)
}

// putAgain answers a PUT on a VM that exists. The same body as before is
// no change: the answer is how the creation stands, and one that failed is
// tried again.
func (c *compute) putAgain(v *vm, w vmRequest) (reply, error) {
	if v.state == deleting {
		return reply{}, beingDeleted(v)
	}
	if (v.state == failed || v.state == canceled) && v.power == "" {
		return c.retry(v, w)
	}
	if err := v.change(w, c.chance.uuid()); err != nil {
		return reply{}, err
	}
	return c.created(v, http.StatusOK)
}

// create checks the whole request before it changes anything.
func (c *compute) create(group, name string, w vmRequest) (*vm, error) {
	v, err := c.plan(group, name, w)
	if err != nil {
		return nil, err
	}
	if err := c.check(v); err != nil {
		return nil, err
	}
	if err := c.quota.check(v.quotaUse()); err != nil {
		return nil, err
	}
	refusal, late := c.stock.takeStock(v)
	if refusal != nil {
		c.nics.reserveNamed(v)
		return nil, refusal
	}
	if err := c.nics.attachTo(v); err != nil {
		return nil, err
	}
	if c.quirks.takeTurn(nicOrphaned) {
		return nil, c.nics.orphan(v)
	}
	c.quota.take(v.quotaUse())
	c.disks.addOS(v)
	c.vms.add(v)
	c.fabric.allocate(v, late)
	c.log.Info("VM accepted", slog.String("vm", name), slog.String("size", v.size.Name),
		slog.String("zone", v.spec.zone()), slog.String("priority", v.spec.priority()))
	return v, nil
}

// retry allocates a VM whose first allocation failed, in another size if
// the body says so.
func (c *compute) retry(v *vm, w vmRequest) (reply, error) {
	size, err := c.sizes.offered(w.spec.Properties.HardwareProfile.VMSize)
	if err != nil {
		return reply{}, err
	}
	before := *v
	v.size = size
	w.spec.Properties.HardwareProfile.VMSize = size.Name
	if err := v.change(w, v.etag); err != nil {
		*v = before
		return reply{}, err
	}
	v.spec.Properties.HardwareProfile.VMSize = size.Name
	c.quota.giveBack(quotaUse(before.size, v.spec.isSpot()))
	late, refusal := c.retryable(v)
	if refusal != nil {
		*v = before
		c.quota.take(v.quotaUse())
		return reply{}, refusal
	}
	c.quota.take(v.quotaUse())
	c.fabric.allocate(v, late)
	return c.created(v, http.StatusOK)
}

func (c *compute) retryable(v *vm) (late *Error, refusal error) {
	if err := c.check(v); err != nil {
		return nil, err
	}
	if err := c.quota.check(v.quotaUse()); err != nil {
		return nil, err
	}
	now, late := c.stock.takeStock(v)
	if now != nil {
		return nil, now
	}
	return late, nil
}

// plan reads what the request asks for into a VM that is not there yet.
func (c *compute) plan(group, name string, w vmRequest) (*vm, error) {
	if err := c.sub.checkLocation(w.spec.Location); err != nil {
		return nil, err
	}
	size, err := c.sizes.offered(w.spec.Properties.HardwareProfile.VMSize)
	if err != nil {
		return nil, err
	}
	w.spec.Properties.HardwareProfile.VMSize = size.Name
	setString(&w.spec.Properties.OSProfile.ComputerName, name)
	osDisk := &w.spec.Properties.StorageProfile.OSDisk
	setString(&osDisk.Name, name+"_OsDisk_1_"+c.chance.hex(16)+c.chance.hex(16))
	id := c.sub.resourceID(group, "Microsoft.Compute", "virtualMachines", name)
	v := &vm{common: c.sub.newCommon(id, name, group), vmID: c.chance.uuid(), vmRequest: w, size: size, extensions: map[string]*extension{}}
	v.tags = w.spec.Tags
	return v, nil
}

// created answers a PUT on a VM, with the headers of the operation that works on it, if any.
func (c *compute) created(v *vm, code int) (reply, error) {
	header := http.Header{}
	if v.at != nil {
		c.ops.announce(v.at, header)
	}
	return answer(code, header, v.view())
}

// check refuses what Azure would, apart from quota, stock and interfaces that
// are new. Its order is from the plainest mistake to the rarest.
func (c *compute) check(v *vm) error {
	for _, check := range []func(*vm) error{
		checkNames, c.sizes.checkZone, checkPriority, c.galleries.checkImage, c.disks.check, c.disks.checkEncryption, c.nics.checkVM, c.sizes.checkRestrictions,
	} {
		if err := check(v); err != nil {
			return err
		}
	}
	return nil
}

func checkNames(v *vm) error {
	if name := v.spec.Properties.OSProfile.ComputerName; !computerName.MatchString(name) {
		return invalidParameter("computerName", "Linux host name '%s' is not valid: it must be 1 to 64 letters, digits, periods and hyphens, and begin and end with a letter or digit.", name)
	}
	return nil
}

// checkPriority refuses terms of spot VMs by the codes of Azure's own table of them
// (learn.microsoft.com, "Error messages for Azure Spot Virtual Machines and scale sets"), which
// tells no status.
func checkPriority(v *vm) error {
	p := v.spec.Properties
	if p.Priority != "" && !v.spec.isSpot() && !strings.EqualFold(p.Priority, "Regular") {
		return invalidParameter("priority", "The value '%s' of parameter 'priority' is not one of Regular, Low, Spot.", p.Priority)
	}
	if !v.spec.isSpot() {
		if p.EvictionPolicy != "" {
			return badRequest("EvictionPolicyCanBeSetOnlyOnAzureSpotVirtualMachines", "Eviction policy can be set only on Azure Spot Virtual Machines. For more information, see http://aka.ms/AzureSpot/errormessages.")
		}
		return nil
	}
	if p.EvictionPolicy != "" && !strings.EqualFold(p.EvictionPolicy, "Delete") && !strings.EqualFold(p.EvictionPolicy, "Deallocate") {
		return invalidParameter("evictionPolicy", "The value '%s' of parameter 'evictionPolicy' is not one of Deallocate, Delete.", p.EvictionPolicy)
	}
	price, _ := v.size.PriceIn(v.location)
	if !v.size.Spot {
		return badRequest("AzureSpotIsNotSupportedForThisVMSize", "Azure Spot is not supported for this VM size '%s'. For more information, see http://aka.ms/AzureSpot/errormessages.", v.size.Name)
	}
	if b := p.BillingProfile; b != nil && b.MaxPrice != nil && *b.MaxPrice != -1 && *b.MaxPrice < price.Spot {
		return conflict("SpotPriceGreaterThanProvidedMaxPrice", "Unable to perform operation 'Create VM' since the provided max price '%g USD' is lower than the current spot price '%g USD' for Azure Spot VM size '%s'. For more information, see http://aka.ms/AzureSpot/errormessages.", *b.MaxPrice, price.Spot, v.size.Name)
	}
	return nil
}

var computerName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,62}[A-Za-z0-9])?$`)

// deleteVM removes a VM. forceDeletion changes nothing here: nothing ever
// waits for a guest.
func (c *compute) deleteVM(r *request) (reply, error) {
	c.clock.Lock()
	defer c.clock.Unlock()
	g, err := c.sub.groupOf(r)
	if err != nil {
		return reply{}, err
	}
	v := c.vms.in(g.name, r.params["vm"])
	if v == nil {
		return reply{status: http.StatusNoContent}, nil
	}
	if v.state == deleting && v.at != nil && !v.stuck {
		return c.ops.accepted(v.at)
	}
	return c.ops.accepted(c.fabric.beginDelete(v, ErrDeleted))
}

// changeable finds the VM of a request that changes it: one that is being deleted is refused.
func (c *compute) changeable(r *request) (*vm, error) {
	v, err := c.vms.find(r)
	if err == nil && v.state == deleting {
		return nil, beingDeleted(v)
	}
	return v, err
}

// deallocateVM stops a VM. It keeps its quota, interfaces and disk.
func (c *compute) deallocateVM(r *request) (reply, error) {
	c.clock.Lock()
	defer c.clock.Unlock()
	v, err := c.changeable(r)
	if err != nil {
		return reply{}, err
	}
	if v.power == deallocated {
		return reply{status: http.StatusOK}, nil
	}
	return c.ops.accepted(c.fabric.beginDeallocate(v, ErrDeallocated))
}

// startVM allocates a stopped VM again. Stock may have run out meanwhile.
func (c *compute) startVM(r *request) (reply, error) {
	c.clock.Lock()
	defer c.clock.Unlock()
	v, err := c.changeable(r)
	if err != nil {
		return reply{}, err
	}
	if v.power != deallocated {
		return reply{status: http.StatusOK}, nil
	}
	refusal, late := c.stock.takeStock(v)
	if refusal != nil {
		return reply{}, refusal
	}
	return c.ops.accepted(c.fabric.start(v, late))
}

// patchVM changes tags and identity, and whatever else may change.
func (c *compute) patchVM(r *request) (reply, error) {
	patch, err := readVMRequest(r.body)
	if err != nil {
		return reply{}, err
	}
	c.clock.Lock()
	defer c.clock.Unlock()
	v, err := c.changeable(r)
	if err != nil {
		return reply{}, err
	}
	if known := r.http.Header.Get("If-Match"); known != "" && known != "*" && known != `W/"`+v.etag+`"` {
		return reply{}, &Error{Status: http.StatusPreconditionFailed, Code: "PreconditionFailed", Message: "The condition 'If-Match' specified was not met: the resource has changed."}
	}
	if err := v.change(patch, c.chance.uuid()); err != nil {
		return reply{}, err
	}
	c.log.Info("VM updated", slog.String("vm", v.name))
	return ok(v.view())
}

func (c *compute) getVM(r *request) (reply, error) {
	c.clock.Lock()
	defer c.clock.Unlock()
	v, err := c.vms.find(r)
	if err != nil {
		return reply{}, err
	}
	view := v.view()
	if strings.EqualFold(r.query.Get("$expand"), "instanceView") {
		view["properties"].(map[string]any)["instanceView"] = v.instanceView()
	}
	return ok(view)
}

func (c *compute) getInstanceView(r *request) (reply, error) {
	c.clock.Lock()
	defer c.clock.Unlock()
	v, err := c.vms.find(r)
	if err != nil {
		return reply{}, err
	}
	return ok(v.instanceView())
}

func (c *compute) listVMs(r *request) (reply, error) {
	c.clock.Lock()
	defer c.clock.Unlock()
	return list(c.sub, r, c.vms.byKey, (*vm).row)
}

// resizing is how long a VM stands still while it moves to hardware of its new size.
const resizing = time.Minute

// resize gives a VM, found by its name in any resource group, another size, as a person
// may in the portal: the next larger of its family or, where there is none, one that is much
// like it. It restarts.
func (c *compute) resize(name string) error {
	c.clock.Lock()
	defer c.clock.Unlock()
	v := c.vms.named(name)
	if v == nil || v.state != succeeded {
		return fmt.Errorf("resizing %s: there is no such VM, or something else is done to it", name)
	}
	size, found := c.sizes.resizeTarget(v)
	if !found {
		return fmt.Errorf("resizing %s: no other size is sold there", name)
	}
	c.quota.giveBack(v.quotaUse())
	if err := c.quota.check(quotaUse(size, v.spec.isSpot())); err != nil {
		c.quota.take(v.quotaUse())
		return fmt.Errorf("resizing %s: %w", name, err)
	}
	c.quota.take(quotaUse(size, v.spec.isSpot()))
	c.log.Info("VM resized", slog.String("vm", v.name), slog.String("from", v.size.Name), slog.String("to", size.Name))
	v.setSize(size)
	v.etag = c.chance.uuid()
	if v.power == running || v.power == starting {
		c.fabric.restartAfter(v, resizing, func() {})
	}
	return nil
}
