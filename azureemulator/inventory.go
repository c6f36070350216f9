// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// inventory reads everything that exists at once.
type inventory struct {
	vms       *virtualMachines
	nics      *interfaces
	disks     *disks
	networks  *virtualNetworks
	machines  *aksMachines
	quota     *quota
	ops       *operations
	stock     *stock
	faults    *faults
	throttles *throttles
	ledger    *ledger
	clock     *clock
}

// check returns all that is inconsistent in the emulator's own records, or nil: quota in use is the
// sum over VMs, interfaces and disks name the VMs that have them, and no address is used twice.
// Clients cannot make it fail.
func (in *inventory) check() error {
	in.clock.Lock()
	defer in.clock.Unlock()
	return errors.Join(in.checkQuota(), in.checkNICs(), in.checkDisks(), in.checkAKSMachines(), in.checkAddresses())
}

func (in *inventory) checkQuota() error {
	actual := quota{used: map[string]int{}}
	for _, v := range in.vms.byKey {
		actual.take(v.quotaUse())
	}
	var errs []error
	for k, name := range in.quota.names {
		if in.quota.used[k] != actual.used[k] {
			errs = append(errs, fmt.Errorf("quota %s says %d in use, the virtual machines use %d", name, in.quota.used[k], actual.used[k]))
		}
	}
	return errors.Join(errs...)
}

func (in *inventory) checkNICs() error {
	return checkAttachments(in.vms, in.nics.byKey, func(v *vm) []*nic {
		var nics []*nic
		for _, a := range v.nics {
			nics = append(nics, a.nic)
		}
		return nics
	})
}

func (in *inventory) checkDisks() error {
	return checkAttachments(in.vms, in.disks.byKey, func(v *vm) []*disk {
		if v.osDisk == nil {
			return nil
		}
		return []*disk{v.osDisk}
	})
}

// attachable is a resource that is attached to at most one VM.
type attachable interface {
	comparable
	record() *common
	attachedTo() string // ID of the VM; empty when there is none
}

func (n *nic) record() *common    { return &n.common }
func (n *nic) attachedTo() string { return n.vm }

func (d *disk) record() *common    { return &d.common }
func (d *disk) attachedTo() string { return d.vm }

// checkAttachments compares what VMs have with what names them as its VM.
func checkAttachments[T attachable](vms *virtualMachines, existing map[string]T, of func(*vm) []T) error {
	var errs []error
	attached := map[T]string{}
	for _, v := range vms.byKey {
		for _, a := range of(v) {
			attached[a] = v.id
			if r := a.record(); existing[key(r.group, r.name)] != a {
				errs = append(errs, fmt.Errorf("virtual machine %s has %s, which does not exist", v.name, r.id))
			}
		}
	}
	for _, a := range existing {
		if a.attachedTo() != attached[a] {
			errs = append(errs, fmt.Errorf("%s names %q as its virtual machine; it is attached to %q", a.record().id, a.attachedTo(), attached[a]))
		}
	}
	return errors.Join(errs...)
}

func (in *inventory) checkAKSMachines() error {
	var errs []error
	for _, m := range in.machines.byKey {
		if m.vm != nil && (m.vm.machine != m || in.vms.byKey[key(m.vm.group, m.vm.name)] != m.vm) {
			errs = append(errs, fmt.Errorf("machine %s of pool %s has %s behind it, which is not its own or does not exist", m.name, m.pool.name, m.vm.name))
		}
	}
	for _, v := range in.vms.byKey {
		if m := v.machine; m != nil && in.machines.byKey[machineKey(m.pool.name, m.name)] != m {
			errs = append(errs, fmt.Errorf("virtual machine %s belongs to a machine that AKS does not know", v.name))
		}
	}
	return errors.Join(errs...)
}

func (in *inventory) checkAddresses() error {
	var errs []error
	held := map[*subnet]map[netip.Addr]string{}
	for _, n := range in.nics.byKey {
		for _, c := range n.configs {
			if held[c.subnet] == nil {
				held[c.subnet] = map[netip.Addr]string{}
			}
			if other := held[c.subnet][c.address]; other != "" {
				errs = append(errs, fmt.Errorf("address %s belongs to %s and to %s", c.address, other, n.configID(c)))
			}
			held[c.subnet][c.address] = n.configID(c)
		}
	}
	for _, v := range in.networks.byKey {
		for _, n := range v.subnets {
			errs = append(errs, n.check(held[n]))
		}
	}
	return errors.Join(errs...)
}

// check compares the subnet's records with the addresses that interfaces hold.
func (n *subnet) check(held map[netip.Addr]string) error {
	var errs []error
	for address, owner := range n.owners {
		if n.lingering[address] {
			owner = "" // no interface has it, and none may
		}
		if !strings.EqualFold(held[address], owner) {
			errs = append(errs, fmt.Errorf("subnet %s has given %s to %s, held by %q", n.name, address, owner, held[address]))
		}
		if !n.prefix.Contains(address) && !n.six.Contains(address) {
			errs = append(errs, fmt.Errorf("subnet %s has given away %s, outside %s", n.name, address, n.prefix))
		}
	}
	if len(held) > len(n.owners) {
		errs = append(errs, fmt.Errorf("subnet %s has given away %d addresses; %d are held", n.name, len(n.owners), len(held)))
	}
	return errors.Join(errs...)
}

// State is all that can be seen at once of the emulator, as GET
// /_emulator/state shows it.
type State struct {
	VMs        []VMState      `json:"vms"`
	Machines   []MachineState `json:"machines"` // of agent pools
	NICs       []NICState     `json:"nics"`
	Disks      []string       `json:"disks"`
	Usages     []Usage        `json:"usages"` // those in use
	Stockouts  []Stockout     `json:"stockouts"`
	Faults     []Fault        `json:"faults"`
	Ledger     Ledger         `json:"ledger"`
	TimeScale  float64        `json:"timeScale"`
	Throttling bool           `json:"throttling"`
	// Operations counts those still in progress.
	Operations int `json:"operations"`
}

// state describes everything that exists, ordered by name.
func (in *inventory) state() State {
	state := State{Stockouts: in.stock.list(), Faults: in.faults.list(), Ledger: in.ledger.now()}
	in.clock.Lock()
	defer in.clock.Unlock()
	state.TimeScale, state.Throttling = in.clock.scale, in.throttles.enforced
	state.Operations = len(in.ops.byID) - len(in.ops.finished)
	state.VMs = describeAll(in.vms.byKey, vmState)
	state.Machines = in.machines.states()
	state.NICs = describeAll(in.nics.byKey, func(n *nic) NICState { return NICState{Name: n.name, VM: n.vm, IP: n.address()} })
	state.Disks = describeAll(in.disks.byKey, func(d *disk) string { return d.name })
	for _, u := range in.quota.usages() {
		if u.Current != 0 {
			state.Usages = append(state.Usages, u)
		}
	}
	return state
}

// describeAll describes resources in the order of their keys; the result is never nil.
func describeAll[T, D any](byKey map[string]T, describe func(T) D) []D {
	all := make([]D, 0, len(byKey))
	for _, k := range slices.Sorted(maps.Keys(byKey)) {
		all = append(all, describe(byKey[k]))
	}
	return all
}

func vmState(v *vm) VMState {
	state := VMState{
		Name: v.name, ResourceGroup: v.group, Size: v.size.Name, Zone: v.spec.zone(), Priority: v.spec.priority(),
		Provisioning: v.state, Power: v.power, PrivateIP: v.address(), Created: v.created, Tags: maps.Clone(v.tags),
	}
	if v.failure != nil {
		state.Failure = v.failure.Code
	}
	if e := v.event(preempt); e != nil {
		state.Preempt = &e.notBefore
	}
	return state
}

// VMState is a VM in a State.
type VMState struct {
	Name          string            `json:"name"`
	ResourceGroup string            `json:"resourceGroup"`
	Size          string            `json:"size"`
	Zone          string            `json:"zone,omitempty"`
	Priority      string            `json:"priority"`
	Provisioning  string            `json:"provisioningState"`
	Power         string            `json:"powerState,omitempty"`
	Failure       string            `json:"failure,omitempty"`
	PrivateIP     string            `json:"privateIP"`
	Created       time.Time         `json:"created"`
	Preempt       *time.Time        `json:"preempt,omitempty"`
	Tags          map[string]string `json:"tags,omitempty"`
}

// NICState is a network interface in a State. VM is empty for a free one.
type NICState struct {
	Name string `json:"name"`
	VM   string `json:"vm,omitempty"`
	IP   string `json:"ip"`
}
