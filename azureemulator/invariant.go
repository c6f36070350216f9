package azureemulator

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// CheckInvariants returns what is wrong with the emulator's own books, all of
// it, or nil: quota in use is the sum over machines, interfaces and disks point
// at machines that point back, and no address is used twice. It holds at every
// moment, whatever clients do.
func (s *Server) CheckInvariants() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.checkUse(), s.checkNICBonds(), s.checkDiskBonds(), s.checkMachineBonds(), s.checkAddresses())
}

func (s *Server) checkUse() error {
	actual := quota{used: map[string]int{}}
	for _, v := range s.vms {
		actual.take(claims(v.size, v.spec.isSpot()))
	}
	var errs []error
	for k, name := range s.quota.names {
		if s.quota.used[k] != actual.used[k] {
			errs = append(errs, fmt.Errorf("quota %s says %d in use, the machines use %d", name, s.quota.used[k], actual.used[k]))
		}
	}
	return errors.Join(errs...)
}

func (s *Server) checkNICBonds() error {
	var errs []error
	bound := map[*nic]string{}
	for _, v := range s.vms {
		for _, a := range v.nics {
			bound[a.nic] = v.id
			if s.nics[key(a.nic.group, a.nic.name)] != a.nic {
				errs = append(errs, fmt.Errorf("machine %s has the interface %s, which does not exist", v.name, a.nic.name))
			}
		}
	}
	for _, n := range s.nics {
		if n.vm != bound[n] {
			errs = append(errs, fmt.Errorf("interface %s says it is bound to %q; it is bound to %q", n.name, n.vm, bound[n]))
		}
	}
	return errors.Join(errs...)
}

func (s *Server) checkDiskBonds() error {
	var errs []error
	attached := map[*disk]string{}
	for _, v := range s.vms {
		if v.osDisk == nil {
			continue
		}
		attached[v.osDisk] = v.id
		if s.disks[key(v.osDisk.group, v.osDisk.name)] != v.osDisk {
			errs = append(errs, fmt.Errorf("machine %s has the disk %s, which does not exist", v.name, v.osDisk.name))
		}
	}
	for _, d := range s.disks {
		if d.vm != attached[d] {
			errs = append(errs, fmt.Errorf("disk %s says it is attached to %q; it is attached to %q", d.name, d.vm, attached[d]))
		}
	}
	return errors.Join(errs...)
}

func (s *Server) checkMachineBonds() error {
	var errs []error
	for _, m := range s.machines {
		if m.vm != nil && (m.vm.machine != m || s.vms[key(m.vm.group, m.vm.name)] != m.vm) {
			errs = append(errs, fmt.Errorf("machine %s of pool %s has %s behind it, which is not its own or does not exist", m.name, m.pool.name, m.vm.name))
		}
	}
	for _, v := range s.vms {
		if m := v.machine; m != nil && s.machines[machineKey(m.pool.name, m.name)] != m {
			errs = append(errs, fmt.Errorf("virtual machine %s belongs to a machine that AKS does not know", v.name))
		}
	}
	return errors.Join(errs...)
}

func (s *Server) checkAddresses() error {
	var errs []error
	held := map[*subnet]map[netip.Addr]string{}
	for _, n := range s.nics {
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
	for _, v := range s.vnets {
		for _, n := range v.subnets {
			errs = append(errs, n.check(held[n]))
		}
	}
	return errors.Join(errs...)
}

// check compares the subnet's book with the addresses interfaces hold.
func (n *subnet) check(held map[netip.Addr]string) error {
	var errs []error
	for address, owner := range n.owners {
		if n.lingering[address] {
			owner = "" // nobody's, and nobody may have it
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
