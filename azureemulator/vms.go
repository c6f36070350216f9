// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// virtualMachines are those that exist.
type virtualMachines struct {
	byKey  map[string]*vm
	byHost map[string]*vm // by lower-case computer name
	sub    *subscription
	clock  *clock
}

// in is the VM of a resource group by name, or nil.
func (vms *virtualMachines) in(group, name string) *vm { return vms.byKey[key(group, name)] }

// find is the VM that a request names, or the refusal that Azure has for it.
func (vms *virtualMachines) find(r *request) (*vm, error) {
	return find(vms.sub, r, vms.byKey, vmKind, "vm")
}

// has reports whether v still exists.
func (vms *virtualMachines) has(v *vm) bool { return vms.in(v.group, v.name) == v }

func (vms *virtualMachines) add(v *vm) {
	vms.byKey[key(v.group, v.name)] = v
	vms.byHost[strings.ToLower(v.spec.Properties.OSProfile.ComputerName)] = v
}

func (vms *virtualMachines) remove(v *vm) {
	delete(vms.byKey, key(v.group, v.name))
	if host := strings.ToLower(v.spec.Properties.OSProfile.ComputerName); vms.byHost[host] == v {
		delete(vms.byHost, host)
	}
}

// named is the VM of that name, in whatever group it is: mostly in that of the nodes,
// whose agents ask every second.
func (vms *virtualMachines) named(name string) *vm {
	if v := vms.byKey[key(vms.sub.nodeGroup, name)]; v != nil {
		return v
	}
	for _, v := range vms.byKey {
		if strings.EqualFold(v.name, name) {
			return v
		}
	}
	return nil
}

// running are the names of those that run, apart from the system pool's, in order.
func (vms *virtualMachines) running() (names []string) {
	vms.clock.Lock()
	defer vms.clock.Unlock()
	for _, k := range slices.Sorted(maps.Keys(vms.byKey)) {
		if v := vms.byKey[k]; v.power == running && v.state != deleting && !v.system {
			names = append(names, v.name)
		}
	}
	return names
}

// VMs is what tests ask of VMs, and do to them. VMs are found by their name, in
// whatever resource group they are.
type VMs struct {
	vms      *virtualMachines
	guests   *guests
	events   *maintenance
	compute  *compute
	machines *aksMachines
	clock    *clock
}

// Find looks a VM up by the name its operating system has, letter case ignored. power is
// "starting", "running", "deallocating" or "deallocated", or empty before it is allocated.
func (m *VMs) Find(computerName string) (vm VM, power string, found bool) {
	m.clock.Lock()
	defer m.clock.Unlock()
	v := m.vms.byHost[strings.ToLower(computerName)]
	if v == nil {
		return VM{}, "", false
	}
	return m.guests.machine(v), v.power, true
}

// Tagged has the value of a tag for each VM that has the tag, by the VM's name.
func (m *VMs) Tagged(tag string) map[string]string {
	m.clock.Lock()
	defer m.clock.Unlock()
	values := make(map[string]string, len(m.vms.byKey))
	for _, v := range m.vms.byKey {
		if value, has := v.tags[tag]; has {
			values[v.name] = value
		}
	}
	return values
}

// Evict announces the eviction of a spot VM, and evicts it after notice (at TimeScale 1; zero
// means the usual 30 seconds, negative no notice at all).
func (m *VMs) Evict(name string, notice time.Duration) error {
	return m.events.evictNamed(name, notice)
}

// Announce schedules an event of a kind (Freeze, Reboot, Redeploy, Terminate, or Preempt for a
// spot VM), and has it happen after notice (at TimeScale 1; zero means Azure's least for the
// kind, negative none at all), or sooner when the VM acknowledges it.
func (m *VMs) Announce(name, kind string, notice time.Duration) error {
	return m.events.announce(name, kind, notice)
}

// Withdraw takes back every event of a VM that has not started.
func (m *VMs) Withdraw(name string) error { return m.events.withdraw(name) }

// Resize gives a VM another size, as an administrator does in the portal: the next larger of its
// family or, where there is none, one that is much like it. It restarts.
func (m *VMs) Resize(name string) error { return m.compute.resize(name) }

// DriftMachine has AKS report that it would make a machine of an agent pool anew, and why; an
// empty reason takes that back.
func (m *VMs) DriftMachine(name, reason string) error { return m.machines.drift(name, reason) }

// ForgetMachine has AKS lose a machine of an agent pool from its records. The VM stays.
func (m *VMs) ForgetMachine(name string) error { return m.machines.forget(name) }
