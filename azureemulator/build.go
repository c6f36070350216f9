// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"context"
	"fmt"
	"slices"
)

// newServer builds the emulator and its first resources, without a listener.
func newServer(ctx context.Context, o Options) (*Server, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	ids := newChance(o.Seed)
	c := newClock(o.TimeScale, ids)
	sub := newSubscription(o, c, ids)
	ops := newOperations(sub, c, ids)
	met := &strikes{}
	all, err := newSizes(o, sub, met, c)
	if err != nil {
		return nil, err
	}
	s := &Server{options: o, clock: c, sub: sub, identity: newIdentity(sub, ids, met), galleries: newGalleries(sub, c), ledger: &ledger{}}
	alive, ends := context.WithCancelCause(context.WithoutCancel(ctx))
	s.ends = ends
	s.guests = &guests{guest: o.Guest, alive: alive, sub: sub}

	// What the parts share.
	q := &quirks{struck: met, clock: c}
	limits := newQuota(o, all, sub, c)
	shortages := &stock{struck: met, sub: sub, clock: c}
	requests := &throttles{enforced: o.Throttle, buckets: map[string]*bucket{}, struck: met, sub: sub, clock: c}
	struck := &faults{line: &line{}, struck: met, clock: c}
	vms := &virtualMachines{byKey: map[string]*vm{}, byHost: map[string]*vm{}, sub: sub, clock: c}

	networks := &virtualNetworks{byKey: map[string]*vnet{}, sub: sub, clock: c, chance: ids}
	groups := &securityGroups{byKey: map[string]*nsg{}, sub: sub, clock: c}
	balancers := &loadBalancers{byKey: map[string]*loadBalancer{}, sub: sub, clock: c}
	nics := &interfaces{
		byKey: map[string]*nic{}, networks: networks, groups: groups, balancers: balancers,
		quirks: q, ops: ops, sub: sub, clock: c, chance: ids, latency: o.Latency.Network,
	}
	s.disks = &disks{byKey: map[string]*disk{}, encryptionSets: map[string]*common{}, ops: ops, sub: sub, clock: c, latency: o.Latency.Network}

	made := &fabric{
		vms: vms, nics: nics, disks: s.disks, quota: limits, quirks: q, ops: ops, guests: s.guests,
		clock: c, chance: ids, latency: o.Latency, log: o.Log,
	}
	vmAPI := &compute{
		vms: vms, sizes: all, galleries: s.galleries, disks: s.disks, nics: nics, quota: limits, stock: shortages,
		quirks: q, identity: s.identity, fabric: made, ops: ops, sub: sub, clock: c, chance: ids, log: o.Log,
	}
	events := &maintenance{vms: vms, fabric: made, guests: s.guests, sub: sub, clock: c, chance: ids, eviction: o.Latency.Eviction, log: o.Log}
	pools := &agentPools{byName: map[string]*agentPool{}, sub: sub, clock: c}
	machines := &aksMachines{
		byKey: map[string]*aksMachine{}, pools: pools, compute: vmAPI, fabric: made, galleries: s.galleries, sizes: all,
		faults: struck, ops: ops, sub: sub, clock: c, chance: ids, latency: o.Latency.Network, log: o.Log,
	}
	made.owner = machines

	s.Network = &Network{networks: networks, groups: groups, balancers: balancers, sub: sub, clock: c}
	s.Capacity = &Capacity{quota: limits, stock: shortages, sizes: all, throttles: requests}
	s.VMs = &VMs{vms: vms, guests: s.guests, events: events, compute: vmAPI, machines: machines, clock: c}
	s.injector = &injector{
		faults: struck, quirks: q, stock: shortages, vms: vms, events: events, fabric: made, compute: vmAPI,
		sizes: all, identity: s.identity, throttles: requests, struck: met, clock: c,
	}
	s.inventory = &inventory{
		vms: vms, nics: nics, disks: s.disks, networks: networks, machines: machines, quota: limits, ops: ops,
		stock: shortages, faults: struck, throttles: requests, ledger: s.ledger, clock: c,
	}
	s.front = &front{
		routes: slices.Concat(
			s.identity.routes(), newPriceList(all, sub).routes(), sub.routes(), all.routes(), limits.routes(), s.galleries.routes(), ops.routes(),
			vmAPI.routes(), (&extensions{vms: vms, ops: ops, sub: sub, clock: c, latency: o.Latency.Extension}).routes(),
			s.disks.routes(), nics.routes(), networks.routes(), groups.routes(), balancers.routes(), pools.routes(), machines.routes(),
			adminRoutes(s), events.routes(),
			(&metadataService{vms: vms, events: events, guests: s.guests, identity: s.identity, sub: sub, clock: c}).routes(),
		),
		ledger: s.ledger, identity: s.identity, throttles: requests, faults: struck, sub: sub, chance: ids, log: o.Log,
	}

	if err := (initialCluster{networks, groups, balancers, pools, vmAPI, all, ops}).create(o, sub); err != nil {
		return nil, fmt.Errorf("making the cluster's resources: %w", err)
	}
	s.acting.Go(func() { c.agenda.run(alive) })
	return s, nil
}
