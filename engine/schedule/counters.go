// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
)

// counter counts one kind of pod, or uses of one port, per node.
type counter struct {
	of countKey
	// planned are the pods that the round puts on existing nodes, by node index. sum is how
	// many it puts on any node.
	planned map[int]int
	sum     int
	running int // over all existing nodes, once counted
	counted bool
	// groups is how many pod groups have pods that the counter counts; not for ports.
	groups int
	// firstInDomain are pod groups of which a pod that the counter counts may be the first of
	// its kind in a zone or another domain.
	firstInDomain []*podGroup
}

// firstPodsAllotted reports whether pods that may be the first in a domain are assigned to a
// cell but have no node yet: they count as the first pods.
func (c *counter) firstPodsAllotted() bool {
	return slices.ContainsFunc(c.firstInDomain, func(g *podGroup) bool { return g.allotted > 0 })
}

// countKey identifies a counter, of pods or of uses of a host port.
type countKey struct {
	countedPods
	protocol string
	port     int32
	ip       string // "" counts uses on any address, "*" those on every address
}

// countedPods says which pods are counted: those that a selector selects, or those that have an
// anti-affinity term. Neither is set where uses of a port are counted.
type countedPods struct {
	selector        *cluster.PodSelector
	owners          *cluster.AntiAffinityTerm
	skipTerminating bool // terminating pods are left out
	skipVirtual     bool // virtual pods are left out: real pods do not see them
}

// counters numbers the counters that the rules of pending pods read.
type counters struct {
	snapshot          *cluster.Snapshot
	antiAffinityTerms *antiAffinityTerms
	ids               map[countKey]int
	all               []*counter
	index             countIndex // of all
	// plannedResidents are the residents planned for existing nodes, by node index.
	plannedResidents map[int]*residents
}

// id is the number of a counter. A new counter gets the next one.
func (cs *counters) id(k countKey) int {
	if i, ok := cs.ids[k]; ok {
		return i
	}
	i := len(cs.all)
	cs.ids[k] = i
	cs.all = append(cs.all, &counter{of: k})
	cs.index.add(k.countedPods)
	return i
}

// countOn is the value of a counter on node i, planned pods included.
func (cs *counters) countOn(c, i int) int {
	return cs.all[c].of.countOn(cs.snapshot.Nodes[i]) + cs.all[c].planned[i]
}

// addPlanned adds n pods that are planned for node i.
func (cs *counters) addPlanned(c, i, n int) {
	k := cs.all[c]
	if k.planned == nil {
		k.planned = map[int]int{}
	}
	k.planned[i] += n
	k.sum += n
}

// addResidents records that pods of the group are planned for node i.
func (cs *counters) addResidents(g *podGroup, i int) {
	if len(g.nodeRules.repels) > 0 || !g.nodeRules.selectedBy.Empty() {
		planned := cs.plannedResidents[i]
		if planned == nil {
			planned = &residents{}
			cs.plannedResidents[i] = planned
		}
		planned.add(&g.nodeRules)
	}
}

// total is the value of a counter over all nodes; not for ports.
func (cs *counters) total(c int) int {
	k := cs.all[c]
	if !k.counted {
		k.counted = true
		k.of.each(cs.snapshot, func(_ *cluster.NodeInfo, n int) { k.running += n })
	}
	return k.running + k.sum
}

// runs is the value of a counter over all nodes without planned pods; not for ports.
func (cs *counters) runs(c int) int { return cs.total(c) - cs.all[c].sum }

// isPlanned reports whether pods that the counter counts are planned for existing nodes.
func (cs *counters) isPlanned(c int) bool {
	for _, n := range cs.all[c].planned {
		if n > 0 {
			return true
		}
	}
	return false
}

// countOn counts what runs on the node, or will run there without this plan.
func (k *countKey) countOn(node *cluster.NodeInfo) int {
	n := 0
	for _, m := range node.PodsByClass() {
		switch {
		case k.isPort():
			n += k.usedBy(m)
		case k.includes(m.Class):
			if n += m.Pods; k.skipTerminating {
				n -= m.Terminating
			}
		}
	}
	if k.isPort() {
		for _, p := range node.DaemonPorts {
			if k.uses(p) {
				n++
			}
		}
	}
	return n
}

// usedBy counts uses of a port.
func (k *countKey) usedBy(m cluster.ClassCount) int {
	n := 0
	for _, p := range m.Class.Ports {
		if k.uses(p) && !(k.skipVirtual && m.Class.Virtual) {
			n += m.Pods
		}
	}
	return n
}

// each calls f with every existing node that counts and its count.
func (k countedPods) each(snapshot *cluster.Snapshot, f func(*cluster.NodeInfo, int)) {
	visit := func(node *cluster.NodeInfo, pods, terminating int) {
		if k.skipTerminating {
			pods -= terminating
		}
		f(node, pods)
	}
	if k.selector != nil {
		k.selector.EachNode(k.skipVirtual, visit)
		return
	}
	k.owners.EachNode(k.skipVirtual, visit)
}

// isPort reports whether uses of a host port are counted.
func (k *countKey) isPort() bool { return k.selector == nil && k.owners == nil }

// uses reports whether uses of the port are counted.
func (k countKey) uses(p cluster.Port) bool {
	return k.protocol == p.Protocol && k.port == p.Port && (k.ip == "" || k.ip == p.Address())
}

// includes reports whether pods of the class are counted.
func (k *countedPods) includes(c *cluster.PodClass) bool {
	switch {
	case k.skipVirtual && c.Virtual:
		return false
	case k.selector != nil:
		return k.selector.Selects(c)
	}
	return k.owners.OwnedBy(c)
}

// classes are those of the pods that are counted.
func (k countedPods) classes() []*cluster.PodClass {
	out := k.owners.Owners
	if k.selector != nil {
		out = k.selector.Classes
	}
	if !k.skipVirtual {
		return out()
	}
	return slices.DeleteFunc(slices.Clone(out()), func(c *cluster.PodClass) bool { return c.Virtual })
}

func newCounters(snapshot *cluster.Snapshot, t *antiAffinityTerms) counters {
	return counters{snapshot: snapshot, antiAffinityTerms: t, ids: map[countKey]int{}, plannedResidents: map[int]*residents{}}
}
