// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// ports are the addresses the components listen on, all on the loopback interface.
type ports struct {
	etcd, apiServer, controllerManager, scheduler, kwok port
}

type port int

func (p port) address() string { return fmt.Sprintf("127.0.0.1:%d", int(p)) }
func (p port) url() string     { return "https://" + p.address() }

// Ports are drawn from below the ranges that systems draw outgoing connections from
// (Linux begins at 32768, others at 49152): the components' own connections would
// otherwise take ports that were free a moment ago.
const (
	lowestPort  = 20000
	highestPort = 32000
)

// errPortTaken reports that a component found its port in use.
var errPortTaken = errors.New("a port was taken by another program")

func freePorts() (ports, error) {
	var p ports
	taken := map[port]bool{}
	for _, each := range []*port{&p.etcd, &p.apiServer, &p.controllerManager, &p.scheduler, &p.kwok} {
		free, err := freePort(taken)
		if err != nil {
			return ports{}, err
		}
		*each, taken[free] = free, true
	}
	return p, nil
}

// freePort draws at random, so that clusters started at the same moment rarely meet.
func freePort(taken map[port]bool) (port, error) {
	const tries = 200
	for range tries {
		p := port(lowestPort + rand.IntN(highestPort-lowestPort))
		if !taken[p] && p.free() {
			return p, nil
		}
	}
	return 0, fmt.Errorf("no free port found between %d and %d in %d tries", lowestPort, highestPort, tries)
}

func (p port) free() bool {
	listener, err := net.Listen("tcp", p.address())
	if err != nil {
		return false
	}
	return listener.Close() == nil
}
