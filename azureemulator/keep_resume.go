package azureemulator

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// resume goes on from what an earlier emulator kept: what the new cluster came with makes
// way. Work that was under way begins its last step anew.
func (s *Server) resume(k *kept) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs = k.Runs + 1
	s.chance = newChance(s.options.Seed + s.runs<<32)
	s.forgetMachines()
	for name, limit := range k.Limits {
		s.quota.set(name, limit)
	}
	s.stockouts = k.Stockouts
	s.resumeMore(k)
	for _, name := range k.Groups {
		s.addGroup(name)
	}
	for _, n := range k.Subnets {
		if err := s.resumeSubnet(n); err != nil {
			return fmt.Errorf("resuming subnet %s: %w", n.Name, err)
		}
	}
	s.resumeOperations(k.Operations)
	for _, p := range k.Pools {
		if s.pools[strings.ToLower(p.Name)] == nil {
			s.addPool(p.Name, p.Mode, p.Document)
		}
	}
	for _, d := range k.Disks {
		s.disks[key(d.Group, d.Name)] = &disk{common: d.common(), sizeGB: d.SizeGB, sku: d.SKU, zone: d.Zone, vm: d.VM, state: d.State}
	}
	for _, n := range k.NICs {
		if err := s.resumeNIC(n); err != nil {
			return fmt.Errorf("resuming interface %s: %w", n.Name, err)
		}
	}
	for _, m := range k.Machines {
		if err := s.resumeMachine(m); err != nil {
			return fmt.Errorf("resuming machine %s: %w", m.Name, err)
		}
	}
	for _, v := range k.VMs {
		if err := s.resumeVM(v); err != nil {
			return fmt.Errorf("resuming virtual machine %s: %w", v.Name, err)
		}
	}
	s.goOn()
	return nil
}

// forgetMachines takes away the machines that a new cluster has.
func (s *Server) forgetMachines() {
	for _, v := range s.vms {
		v.life++
		s.quota.giveBack(claims(v.size, v.spec.isSpot()))
	}
	for _, n := range s.nics {
		s.removeNIC(n)
	}
	clear(s.vms)
	clear(s.hosts)
	clear(s.disks)
	clear(s.operations.byID)
	s.operations.finished = nil
}

func (s *Server) resumeSubnet(k keptSubnet) (err error) {
	n := s.subnetByID(s.subnetID(k.Group, k.Network, k.Name))
	if n == nil {
		if n, err = s.addSubnet(k.Group, k.Network, k.Name, k.Prefix); err != nil {
			return err
		}
	}
	if n.prefix != k.Prefix {
		return fmt.Errorf("it had the range %s and now has %s", k.Prefix, n.prefix)
	}
	if k.Six.IsValid() {
		n.addSix(k.Six)
	}
	n.service, n.closed = k.Service, k.Closed
	return nil
}

// resumeOperations brings operations back. Those that nothing answers for any more, such as
// deletions of many machines, are over after a while.
func (s *Server) resumeOperations(list []keptOperation) {
	slices.SortStableFunc(list, func(a, b keptOperation) int { return a.Ended.Compare(b.Ended) })
	for _, k := range list {
		op := &operation{id: k.ID, namespace: k.Namespace, status: k.Status, started: k.Started, ended: k.Ended, failure: k.Failure, pace: k.Pace}
		s.operations.byID[op.id] = op
		if op.status != inProgress {
			s.operations.finished = append(s.operations.finished, op.id)
		}
	}
}

func (s *Server) resumeNIC(k keptNIC) error {
	n := &nic{
		common: k.common(), guid: k.GUID, mac: k.MAC, accelerated: k.Accelerated, nsg: k.NSG, state: k.State,
		vm: k.VM, reservedFor: k.ReservedFor, reservedTo: k.ReservedTo,
	}
	for _, a := range k.Configs {
		c := &ipConfig{name: a.Name, subnet: s.subnetByID(a.Subnet), address: a.Address, primary: a.Primary, pools: a.Pools}
		if c.subnet == nil {
			return fmt.Errorf("there is no subnet %s", a.Subnet)
		}
		c.subnet.give(c.address, n.configID(c))
		n.configs = append(n.configs, c)
	}
	s.nics[key(n.group, n.name)] = n
	return nil
}

func (s *Server) resumeMachine(k keptMachine) error {
	p := s.pools[strings.ToLower(k.Pool)]
	if p == nil {
		return fmt.Errorf("there is no agent pool %s", k.Pool)
	}
	node, err := readNodeProfile(k.Document)
	if err != nil {
		return err
	}
	s.machines[machineKey(p.name, k.Name)] = &aksMachine{
		common: k.common(), pool: p, zones: k.Zones, document: k.Document, node: node, vmID: k.VMID, failure: k.Failure,
		lost: k.Lost, leaving: k.Leaving, drift: k.Drift, at: s.operations.byID[k.Operation],
	}
	return nil
}

func (s *Server) resumeVM(k keptVM) error {
	size, err := s.sizeNamed(k.Spec.Properties.HardwareProfile.VMSize)
	if err != nil {
		return err
	}
	v := &vm{
		common: k.common(), vmID: k.VMID, wish: wish{spec: k.Spec, customData: k.CustomData, document: k.Document}, size: size,
		state: k.State, power: k.Power, osDisk: s.disks[k.Disk], extensions: map[string]*extension{}, failure: k.Failure,
		at: s.operations.byID[k.Operation], stuck: k.Stuck, hosted: k.Hosted, incarnation: k.Incarnation,
	}
	for _, e := range k.Events {
		v.events = append(v.events, &scheduledEvent{e.ID, e.Kind, scheduled, e.Source, e.NotBefore, e.Description, e.Lasts})
	}
	for _, a := range k.NICs {
		n := s.nics[a.NIC]
		if n == nil {
			return fmt.Errorf("there is no network interface %s", a.NIC)
		}
		v.nics = append(v.nics, attachedNIC{nic: n, primary: a.Primary, cascade: a.Cascade})
	}
	for _, e := range k.Extensions {
		v.extensions[strings.ToLower(e.Name)] = &extension{common: e.common(), properties: e.Properties, state: e.State}
	}
	if m := s.machines[k.Machine]; m != nil {
		v.machine, m.vm = m, v
	}
	s.quota.take(claims(size, v.spec.isSpot()))
	s.vms[key(v.group, v.name)] = v
	s.hosts[strings.ToLower(v.spec.Properties.OSProfile.ComputerName)] = v
	return nil
}

// goOn puts on the agenda what the last emulator had on its own.
func (s *Server) goOn() {
	owned := map[string]bool{}
	inOrder(s.vms, func(v *vm) {
		owned[v.at.name()] = true
		s.goOnWith(v)
		s.goOnWithEvents(v)
	})
	inOrder(s.machines, func(m *aksMachine) {
		owned[m.at.name()] = true
		s.goOnWithMachine(m)
	})
	inOrder(s.disks, func(d *disk) {
		if d.state == deleting {
			s.later(s.options.Latency.Network, func() { s.removeDisk(d) })
		}
	})
	inOrder(s.nics, func(n *nic) {
		switch n.state {
		case updating:
			s.later(s.options.Latency.Network, func() { n.state = succeeded })
		case deleting:
			s.later(s.options.Latency.Network, func() { s.removeNIC(n) })
		}
	})
	inOrder(s.operations.byID, func(op *operation) {
		if op.status == inProgress && !owned[op.id] {
			s.later(s.options.Latency.Delete, func() { s.operations.finish(op, nil) })
		}
	})
}

// goOnWith takes up what was going on with a virtual machine.
func (s *Server) goOnWith(v *vm) {
	v.life++
	life := v.life
	alive := func(act func()) func() {
		return func() {
			if v.life == life {
				act()
			}
		}
	}
	inOrder(v.extensions, func(e *extension) { s.goOnWithExtension(v, e) })
	switch {
	case v.state == deleting && v.stuck:
	case v.state == deleting:
		op := v.at
		s.later(s.options.Latency.Delete, func() {
			s.removeVM(v)
			s.operations.finish(op, nil)
		})
	case v.state == creating:
		s.later(s.options.Latency.Create, alive(func() { s.endCreation(v, nil) }))
	case v.power == deallocating:
		s.later(s.options.Latency.Power, alive(func() { s.endDeallocation(v, v.at) }))
	case v.state == updating && v.power == starting:
		s.later(s.options.Latency.Power, alive(func() { s.endStart(v, v.at, nil) }))
	case v.power == starting:
		s.bootLater(v)
	case v.power == running:
		s.boot(v)
	}
}

func (s *Server) goOnWithExtension(v *vm, e *extension) {
	switch e.state {
	case deleting:
		s.later(s.options.Latency.Extension, func() { delete(v.extensions, strings.ToLower(e.name)) })
	case creating, updating:
		s.later(s.options.Latency.Extension, func() { e.state = succeeded })
	}
}

// goOnWithMachine takes up what AKS was doing for a machine without a virtual one; the
// rest follows from that.
func (s *Server) goOnWithMachine(m *aksMachine) {
	switch {
	case m.vm != nil || m.failure != nil:
	case m.leaving:
		s.later(s.options.Latency.Network, func() { s.removeMachine(m) })
	case !m.lost:
		s.later(s.options.Latency.Network, func() { s.buildMachine(m) })
	}
}

// give has an address belong to an owner who had it before.
func (n *subnet) give(address netip.Addr, owner string) {
	n.owners[address] = owner
	if address.Is6() {
		n.taken6++
		if n.last6.Less(address) {
			n.last6 = address
		}
	}
}
