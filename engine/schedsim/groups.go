// SPDX-License-Identifier: Apache-2.0

package schedsim

import (
	"math"
	"slices"
	"sort"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/quantity"
)

// groups finds the group of a node, and the groups that admit a pod.
type groups struct {
	labels     []*constraint.Key // by which pods distinguish nodes
	all        []*nodeGroup
	ranks      []rank // of all groups, the one with the emptiest node first
	byKey      map[groupKey]*nodeGroup
	admissions map[*cluster.PodShape]*admission
}

// nodeGroup is all nodes that differ only in their pods. They have the same cpu and memory, so a
// pod fills the same share of each and kube-scheduler prefers the emptiest. They have the same
// taints and the same values of the labels that pods ask for, so a pod is admitted to all or none.
type nodeGroup struct {
	info    *cluster.NodeInfo    // one of the nodes; nil for nodes that were launched:
	catalog *cluster.PoolCatalog // an offering of this catalog
	row     int

	size
	slots  []slot // the open nodes, the emptiest first
	nodes  int    // the number of all nodes
	values []int  // by domain count; see domainCount.value
	number int    // in groups.all
	rank   int    // in groups.ranks
	in     *groups
}

// size is the share of a node that a base unit of cpu is, and one of memory.
type size struct{ perCPU, perMemory float64 }

// rank is a group, and how empty its emptiest open node is; -Inf without one. It repeats what most
// groups are skipped by.
type rank struct {
	emptiest float64
	size
	number int
	group  *nodeGroup
}

// groupKey is what the nodes of a group share.
type groupKey struct {
	cpu, memory     int64
	labelsAndTaints string               // taints and labels of a node,
	catalog         *cluster.PoolCatalog // or the offering to be launched
	row             int
}

// slot is the index of a node, how empty it is, and its free cpu and memory, which most pods
// that do not fit lack: most nodes are skipped by their slot alone.
type slot struct {
	at          int
	emptiness   float64
	cpu, memory int64
}

func newGroups(labels []*constraint.Key) *groups {
	return &groups{labels: labels, byKey: map[groupKey]*nodeGroup{}, admissions: map[*cluster.PodShape]*admission{}}
}

// ofNode is the group of the node.
func (s *groups) ofNode(info *cluster.NodeInfo) *nodeGroup {
	g := s.findOrAdd(groupKey{cpu: info.Allocatable[quantity.NameCPU], memory: info.Allocatable[quantity.NameMemory], labelsAndTaints: info.GroupKey(s.labels)})
	g.info = info
	return g
}

// ofOffering is the group of nodes of that offering.
func (s *groups) ofOffering(catalog *cluster.PoolCatalog, row int) *nodeGroup {
	size := catalog.Catalog.Allocatable[catalog.Catalog.Offerings[row].Type]
	g := s.findOrAdd(groupKey{cpu: size[quantity.CPU], memory: size[quantity.Memory], catalog: catalog, row: row})
	g.catalog, g.row = catalog, row
	return g
}

// findOrAdd is the group with that key; it is added if it is missing.
func (s *groups) findOrAdd(key groupKey) *nodeGroup {
	g := s.byKey[key]
	if g == nil {
		g = &nodeGroup{size: size{1 / float64(max(1, key.cpu)), 1 / float64(max(1, key.memory))}, number: len(s.all), rank: len(s.all), in: s}
		s.byKey[key] = g
		s.all, s.ranks = append(s.all, g), append(s.ranks, rank{math.Inf(-1), g.size, g.number, g})
	}
	return g
}

// admission is which groups admit pods of a shape. Shapes that ask for a node's name are checked
// node by node instead.
type admission struct {
	shape  *cluster.PodShape
	admits []bool // by group; those that were added since extend was called last are missing
}

// admissionOf is the admission of pods of the shape.
func (s *groups) admissionOf(shape *cluster.PodShape) *admission {
	a := s.admissions[shape]
	if a == nil {
		a = &admission{shape: shape}
		s.admissions[shape] = a
	}
	return a
}

// extend decides about the groups that were added since the admission was last extended.
func (s *groups) extend(a *admission) {
	for _, g := range s.all[len(a.admits):] {
		a.admits = append(a.admits, a.shape.UsesHostname || g.admits(a.shape))
	}
}

// admits reports whether labels and taints of the node admit pods of the class.
func (s *groups) admits(n *node, c *podClass) bool {
	switch {
	case c.UsesHostname && n.info != nil:
		return n.info.Accepts(c.PodShape)
	case c.UsesHostname:
		return n.group.admits(c.PodShape)
	}
	s.extend(c.admission)
	return c.admission.admits[n.group.number]
}

// admits reports whether labels and taints admit pods that do not ask for a node's name.
func (g *nodeGroup) admits(shape *cluster.PodShape) bool {
	if g.info != nil {
		return g.info.Accepts(shape)
	}
	return slices.ContainsFunc(g.catalog.Compatible(shape).Admitted, func(rows bitset.Set) bool { return rows.Has(g.row) })
}

// share is which share of a node of that size v is: cpu and memory together, up to 2.
func (s size) share(v *quantity.Vector) float64 {
	return float64(v[quantity.CPU])*s.perCPU + float64(v[quantity.Memory])*s.perMemory
}

// value is the value of a label.
func (g *nodeGroup) value(k *constraint.Key) (int, bool) {
	if g.info != nil {
		return g.info.Value(k)
	}
	return valueAtLaunch(g.catalog, g.row, k)
}

// valueAtLaunch is the value of a label of an offering to be launched. Only zone and capacity type
// are certain.
func valueAtLaunch(catalog *cluster.PoolCatalog, row int, k *constraint.Key) (int, bool) {
	switch o := &catalog.Catalog.Offerings[row]; k.Name {
	case cluster.LabelZone:
		return k.ID(o.Zone), true
	case cluster.LabelCapacityType:
		return k.ID(o.CapacityType), true
	}
	return 0, false
}

// rankAgain puts the group in its place among all groups: mostly it moves only a little.
func (g *nodeGroup) rankAgain() {
	now := rank{math.Inf(-1), g.size, g.number, g}
	if len(g.slots) > 0 {
		now.emptiest = g.slots[0].emptiness
	}
	i, ranks := g.rank, g.in.ranks
	for ; i+1 < len(ranks) && ranks[i+1].emptiest > now.emptiest; i++ {
		ranks[i] = ranks[i+1]
		ranks[i].group.rank = i
	}
	for ; i > 0 && ranks[i-1].emptiest < now.emptiest; i-- {
		ranks[i] = ranks[i-1]
		ranks[i].group.rank = i
	}
	ranks[i], g.rank = now, i
}

// insert lists an open node.
func (g *nodeGroup) insert(s slot) {
	g.slots = slices.Insert(g.slots, g.position(s), s)
	g.rankAgain()
}

// remove removes a node from the list.
func (g *nodeGroup) remove(s slot) {
	i := g.position(s)
	g.slots = slices.Delete(g.slots, i, i+1)
	g.rankAgain()
}

// update updates the slot of a node.
func (g *nodeGroup) update(before, after slot) {
	from, to := g.position(before), g.position(after)
	if to > from { // to counts the slot itself
		to--
		copy(g.slots[from:to], g.slots[from+1:])
	} else {
		copy(g.slots[to+1:from+1], g.slots[to:])
	}
	g.slots[to] = after
	g.rankAgain()
}

// position is the index of the slot, or where it should be: the emptiest come first.
func (g *nodeGroup) position(s slot) int {
	return sort.Search(len(g.slots), func(i int) bool {
		o := &g.slots[i]
		return o.emptiness < s.emptiness || o.emptiness == s.emptiness && o.at >= s.at
	})
}
