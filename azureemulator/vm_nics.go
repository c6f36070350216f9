// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"net/http"
	"strings"
	"time"
)

// checkVM refuses a VM without interfaces, with ones that are
// missing, bound or reserved, or with more than its size can have.
func (ni *interfaces) checkVM(v *vm) error {
	n := v.spec.Properties.NetworkProfile
	count := len(n.Interfaces) + len(n.Configurations)
	switch {
	case count == 0:
		return invalidParameter("networkProfile", "Virtual Machine must have at least one network interface.")
	case len(n.Interfaces) > 0 && len(n.Configurations) > 0:
		return badRequest("ConflictingUserInput", "networkInterfaces and networkInterfaceConfigurations cannot both be specified.")
	case len(n.Configurations) > 0 && n.APIVersion == "":
		return invalidParameter("networkProfile.networkApiVersion", "networkApiVersion is required when networkInterfaceConfigurations are specified.")
	case count > v.size.MaxNICs:
		return badRequest("NetworkInterfaceCountExceeded", "The number of network interfaces for virtual machine %s exceeds the maximum allowed for the virtual machine size %s. The number of network interfaces is %d and the maximum allowed is %d.", v.name, v.size.Name, count, v.size.MaxNICs)
	}
	for _, reference := range n.Interfaces {
		if err := ni.checkReference(v, reference); err != nil {
			return err
		}
	}
	for _, c := range n.Configurations {
		if err := ni.checkInline(v, c); err != nil {
			return err
		}
	}
	return nil
}

func (ni *interfaces) checkReference(v *vm, reference nicReference) error {
	k, isNIC := keyOfID(reference.ID, nicKind)
	n := ni.byKey[k]
	if !isNIC || n == nil || n.state == "Deleting" {
		return invalidReference(reference.ID, v.id)
	}
	if n.vm != "" && !strings.EqualFold(n.vm, v.id) {
		return nicInUse(n.id, n.vm)
	}
	if left := n.reservedFrom(v.id); left > 0 {
		return nicReserved(n.reservedFor, left)
	}
	return checkAcceleration(v, n.accelerated)
}

func (ni *interfaces) checkInline(v *vm, c nicInline) error {
	if c.Name == "" {
		return invalidParameter("networkInterfaceConfigurations.name", "Required parameter 'networkInterfaceConfigurations.name' is missing (null).")
	}
	if err := checkAcceleration(v, c.Properties.Accelerated); err != nil {
		return err
	}
	return ni.check(ni.inlineID(v, c), c.nicSpec)
}

func checkAcceleration(v *vm, accelerated bool) error {
	if !accelerated || v.size.AcceleratedNetworking {
		return nil
	}
	return badRequest("VMSizeIsNotPermittedToEnableAcceleratedNetworking", "VM size %s is not permitted to have accelerated networking enabled on its network interfaces. See https://aka.ms/acceleratednetworking for the sizes that are.", v.size.Name)
}

// attachTo binds the interfaces asked for and makes those described inline.
// checkVM has been passed; only addresses for several inline interfaces
// together can still be missing, and then none is made.
func (ni *interfaces) attachTo(v *vm) error {
	p := v.spec.Properties.NetworkProfile
	for _, reference := range p.Interfaces {
		k, _ := keyOfID(reference.ID, nicKind)
		v.attach(ni.byKey[k], reference.Properties.Primary, reference.Properties.DeleteOption)
	}
	for _, c := range p.Configurations {
		n, err := ni.add(ni.inlineID(v, c), ni.inlineName(v, c), v.group, c.nicSpec)
		if err != nil {
			ni.discard(v)
			return err
		}
		v.attach(n, c.Properties.Primary, c.Properties.DeleteOption)
	}
	return nil
}

func (v *vm) attach(n *nic, primary *bool, deleteOption string) {
	isPrimary := len(v.nics) == 0
	if primary != nil {
		isPrimary = *primary
	}
	n.vm, n.reservedFor = v.id, ""
	v.nics = append(v.nics, attachedNIC{nic: n, primary: isPrimary, cascade: strings.EqualFold(deleteOption, "Delete")})
}

func (ni *interfaces) discard(v *vm) {
	for _, a := range v.nics {
		ni.remove(a.nic)
	}
	v.nics = nil
}

// inlineName is the name Azure gives an interface described inline: that of the
// configuration and a suffix that belongs to the VM. Clients must read it
// from the VM, as from Azure.
func (ni *interfaces) inlineName(v *vm, c nicInline) string { return c.Name + "-" + v.vmID[:8] }

func (ni *interfaces) inlineID(v *vm, c nicInline) string {
	return ni.sub.resourceID(v.group, "Microsoft.Network", "networkInterfaces", ni.inlineName(v, c))
}

// reserveNamed keeps the interfaces of a VM that could not be had for it.
func (ni *interfaces) reserveNamed(v *vm) {
	for _, reference := range v.spec.Properties.NetworkProfile.Interfaces {
		if k, _ := keyOfID(reference.ID, nicKind); ni.byKey[k] != nil {
			ni.reserve(ni.byKey[k], v.id)
		}
	}
}

func (ni *interfaces) reserve(n *nic, vm string) {
	n.vm, n.reservedFor, n.reservedTo = "", vm, time.Now().Add(ni.clock.scaled(reservation))
}

// release removes the interfaces of a VM that is gone, or sets them
// free; after a failed creation they stay reserved for its name for a while.
func (ni *interfaces) release(v *vm) {
	for _, a := range v.nics {
		switch {
		case a.cascade:
			ni.remove(a.nic)
		case v.power == "":
			ni.reserve(a.nic, v.id)
		default:
			a.nic.vm = ""
		}
	}
}

// orphan fails a creation when its interfaces are made already. They are kept for the
// VM for a while, and only the client can delete them.
func (ni *interfaces) orphan(v *vm) error {
	for _, a := range v.nics {
		ni.reserve(a.nic, v.id)
	}
	return refuse(http.StatusInternalServerError, "InternalExecutionError", "An internal execution error occurred. Please retry later.")
}
