// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
)

// Port is a host port that a pod takes. With an IP of "", "0.0.0.0" or "::" it takes the
// port on every address.
type Port struct {
	Protocol string // TCP, UDP or SCTP
	IP       string
	Port     int32
}

// String renders the port for people: TCP/8080, TCP/127.0.0.1:53.
func (p Port) String() string {
	if p.Address() == "*" {
		return fmt.Sprintf("%s/%d", p.Protocol, p.Port)
	}
	return fmt.Sprintf("%s/%s:%d", p.Protocol, p.IP, p.Port)
}

// Address is the port's IP, or "*" for all addresses.
func (p Port) Address() string {
	switch p.IP {
	case "", "0.0.0.0", "::":
		return "*"
	}
	return p.IP
}

// clashes reports whether the two ports cannot be taken on one node.
func (p Port) clashes(o Port) bool {
	a, b := p.Address(), o.Address()
	return p.Protocol == o.Protocol && p.Port == o.Port && (a == b || a == "*" || b == "*")
}

// daemonPorts are host ports that a DaemonSet takes on nodes of these offerings.
type daemonPorts struct {
	ports     []Port
	offerings bitset.Set
}

// offeringsWithTakenPorts returns the offerings on whose nodes DaemonSets take a port that the
// shape needs.
func (c *PoolCatalog) offeringsWithTakenPorts(s *PodShape) bitset.Set {
	var offerings bitset.Set
	if len(s.Ports) == 0 {
		return offerings
	}
	for _, t := range c.daemonPorts {
		if slices.ContainsFunc(s.Ports, t.clashes) {
			offerings.Merge(t.offerings)
		}
	}
	return offerings
}

func (t daemonPorts) clashes(p Port) bool { return slices.ContainsFunc(t.ports, p.clashes) }

// PortsTaken lists the ports that the shape needs and that DaemonSets take on nodes of some
// of the offerings.
func (c *PoolCatalog) PortsTaken(s *PodShape, offerings bitset.Set) []string {
	var out []string
	for _, p := range s.Ports {
		if slices.ContainsFunc(c.daemonPorts, func(t daemonPorts) bool { return t.clashes(p) && t.offerings.Intersects(offerings) }) {
			out = append(out, p.String())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
