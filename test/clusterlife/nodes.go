// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"fmt"
	"slices"
	"time"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
)

// nodes are the nodes of the cluster, from the creation of their NodeClaims until their instances
// are deleted.
type nodes struct {
	c       *Cluster
	list    []*node // in the order of their creation
	ordered int     // nodes ever ordered
}

// order creates a node, which joins, or does not, in its own time.
func (ns *nodes) order(pool string, choices []offering.Ref) *node {
	ns.ordered++
	n := &node{key: fmt.Sprintf("%s-%04d", pool, ns.ordered), pool: ns.c.pool(pool), created: ns.c.now}
	n.acceptable = offering.RotateZones(choices, n.key)
	n.version = n.pool.Version
	ns.list = append(ns.list, n)
	ns.c.Stats.Launches++
	ns.c.logf("order %s %v of %d", n.key, n.acceptable[0], len(choices))
	ns.c.changed()
	ns.c.after(3*time.Second, func() { ns.launch(n) })
	return n
}

// launch launches the first offering that has capacity, and removes the node when none has.
// Offerings found without capacity are marked so for a while, as the provider does.
func (ns *nodes) launch(n *node) {
	if n.phase == gone {
		return
	}
	for _, choice := range n.acceptable {
		d := offeringKey{choice.Type, choice.Zone, choice.CapacityType}
		if ns.c.catalog.unavailable[d] {
			continue
		}
		if ns.c.catalog.launchFails[d] {
			ns.c.SetUnavailable(d, true)
			ns.c.after(3*time.Minute, func() { ns.c.SetUnavailable(d, false) })
			continue
		}
		s := ns.c.catalog.sizeOf[d.instanceType]
		n.offering, n.milli, n.mib = d, s.cores*1000-systemMilli-daemonMilli, s.gib*1024-systemMiB-daemonMiB
		boot := ns.c.Durations.Boot[0] + time.Duration(ns.c.rng.Int64N(int64(ns.c.Durations.Boot[1]-ns.c.Durations.Boot[0]+1)))
		ns.c.after(boot, func() { ns.initialize(n) })
		ns.c.changed()
		ns.c.Checker.nodeLaunched(n)
		return
	}
	ns.c.logf("no capacity for %s", n.key)
	ns.c.Stats.NoCapacity++
	ns.remove(n)
}

func (ns *nodes) initialize(n *node) {
	if n.isDeleting() {
		return
	}
	if ns.c.catalog.neverRegisters[n.offering] {
		ns.c.after(ns.c.Durations.RegistrationTimeout, func() { ns.remove(n) })
		return
	}
	n.initialized = ns.c.now
	if life := n.pool.ExpireAfter; life > 0 {
		ns.c.after(n.created.Add(life).Sub(ns.c.now), func() { ns.c.Checker.outsideChange(); ns.c.changed() })
	}
	ns.c.logf("ready %s %v", n.key, n.offering)
	ns.c.changed()
}

// retryEviction is how soon an eviction that a disruption budget refused is requested again.
const retryEviction = 5 * time.Second

// delete deletes a node: its pods are evicted, then the instance ends.
func (ns *nodes) delete(n *node) {
	if n.isDeleting() {
		return
	}
	n.phase, n.tainted = max(n.phase, deleting), true
	if n.pool.TerminationGracePeriod > 0 {
		n.deadline = ns.c.now.Add(n.pool.TerminationGracePeriod)
	}
	for _, p := range n.pods {
		ns.c.mirror.podChanged(p)
	}
	ns.c.changed()
	ns.drain(n)
}

// drain evicts the pods that may be evicted now, and runs again for the rest.
func (ns *nodes) drain(n *node) {
	if n.phase >= terminating {
		return
	}
	for _, p := range n.largestFirst() {
		switch {
		case p.terminating:
		case !n.deadline.IsZero() && !ns.c.now.Before(n.deadline.Add(-p.owner.Grace)):
			ns.evict(p, n, true)
		case !p.protected(ns.c.now) && p.owner.allowedEvictions() > 0:
			ns.evict(p, n, false)
		}
	}
	if len(n.pods) > 0 {
		ns.c.after(retryEviction, func() { ns.drain(n) })
		return
	}
	if n.stuckFinalizer {
		return
	}
	n.phase = terminating
	ns.c.changed()
	ns.c.after(ns.c.Durations.InstanceDeletion, func() { ns.remove(n) })
}

// evict ends a pod for a node's sake. Its workload makes another.
func (ns *nodes) evict(p *pod, n *node, forced bool) {
	ns.c.Checker.podEvicted(p, n, forced)
	if n.move != nil {
		ns.c.Stats.Evictions++
	}
	w := p.owner
	ns.c.workloads.terminate(p)
	if w.isJob() {
		ns.c.workloads.create(w).evicted = true
		return
	}
	w.unreplaced++
	ns.c.workloads.reconcile(w) // at once: replacement pods queue in the order of evictions
}

// remove ends a node: its pods are lost to their owners.
func (ns *nodes) remove(n *node) {
	if n.phase == gone {
		return
	}
	n.phase = gone
	for _, p := range slices.Clone(n.pods) {
		ns.c.workloads.remove(p)
	}
	ns.c.mirror.removeNode(n)
	ns.list = slices.DeleteFunc(ns.list, func(o *node) bool { return o == n })
	ns.c.logf("gone %s", n.key)
	ns.c.changed()
}

func (ns *nodes) find(key string) *node {
	for _, n := range ns.list {
		if n.key == key {
			return n
		}
	}
	return nil
}

// random returns a schedulable node, of spot capacity where asked for; nil when there is none.
func (ns *nodes) random(spot bool) *node {
	from := slices.DeleteFunc(slices.Clone(ns.list), func(n *node) bool {
		return !n.schedulable() || spot && n.offering.capacityType != offering.Spot
	})
	if len(from) == 0 {
		return nil
	}
	return from[ns.c.rng.IntN(len(from))]
}

// cost is the current price of all nodes per hour.
func (ns *nodes) cost() offering.Price {
	var sum offering.Price
	for _, n := range ns.list {
		if n.offering.instanceType != "" {
			sum += ns.c.catalog.price(n.offering)
		}
	}
	return sum
}

// snapshotNode returns the node as the engine's Snapshot has it.
func (ns *nodes) snapshotNode(n *node) cluster.Node {
	first := offeringKey{n.acceptable[0].Type, n.acceptable[0].Zone, n.acceptable[0].CapacityType}
	if n.offering.instanceType != "" {
		first = n.offering
	}
	s := ns.c.catalog.sizeOf[first.instanceType]
	out := cluster.Node{
		Key: n.key, Name: n.key, Pool: n.pool.Name, Taints: n.pool.taints(), HasNodeClaim: true, Created: n.created,
		Capacity: resources(s.cores*1000, s.gib*1024, maxPods), Allocatable: resources(s.cores*1000-systemMilli, s.gib*1024-systemMiB, maxPods),
		Price: ns.c.catalog.price(first), Initialized: !n.initialized.IsZero(),
		MarkedForDeletion: n.isDeleting() || n.podsNominatedElsewhere() || n.phase >= terminating,
		Labels: map[string]string{
			cluster.LabelNodePool: n.pool.Name, cluster.LabelInstanceType: first.instanceType, cluster.LabelZone: first.zone, cluster.LabelCapacityType: first.capacityType,
			"pool": n.pool.Name, "family": first.instanceType[:1],
		},
	}
	if out.Initialized {
		out.Labels[cluster.LabelHostname] = n.key
	}
	if n.notReady {
		out.Taints = append(out.Taints, cluster.Taint{Key: "node.kubernetes.io/not-ready", Effect: cluster.NoSchedule})
	}
	if n.tainted {
		out.Taints = append(out.Taints, cluster.Taint{Key: "karpenter.sh/disrupted", Effect: cluster.NoSchedule})
	}
	if n.offering.instanceType == "" {
		for _, choice := range n.acceptable {
			o := ns.c.catalog.sizeOf[choice.Type]
			for name, v := range resources(o.cores*1000, o.gib*1024, maxPods) {
				out.Capacity[name] = max(out.Capacity[name], v)
			}
			for name, v := range resources(o.cores*1000-systemMilli, o.gib*1024-systemMiB, maxPods) {
				out.Allocatable[name] = min(out.Allocatable[name], v)
			}
		}
	}
	out.TakesNoPods = !out.Initialized && ns.c.now.Sub(n.created) > ns.c.Durations.RegistrationTimeout
	return out
}
