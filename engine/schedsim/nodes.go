// SPDX-License-Identifier: Apache-2.0

package schedsim

import (
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/quantity"
)

// nodes is every node with the pods that moved to it, and a log of the changes since the last
// commit.
type nodes struct {
	all     []node
	byInfo  map[*cluster.NodeInfo]int
	groups  *groups
	domains domains
	// launched counts the nodes that were launched, by the catalog of their NodePool.
	launched map[*cluster.PoolCatalog]int
	log      []change
}

// node is a node of the snapshot, or one that was launched.
type node struct {
	free      quantity.Vector
	group     *nodeGroup
	info      *cluster.NodeInfo    // nil when the node was launched
	running   []cluster.ClassCount // the pods there at the start
	arrived   []*cluster.PodClass  // the pods that moved here
	emptiness float64              // how empty it is, as its group has it; see nodeGroup.share
	state     nodeState
	// expected is how many of the pods planned for the node are not placed yet.
	expected int
}

// nodeState is whether a node takes pods.
type nodeState uint8

const (
	open    nodeState = iota // it takes pods, and is listed in its group
	full                     // it cannot take even the smallest pod
	drained                  // all its pods left, and it takes none
)

func newNodes(infos []*cluster.NodeInfo, g *groups) *nodes {
	n := &nodes{all: make([]node, 0, len(infos)+len(infos)/8), byInfo: make(map[*cluster.NodeInfo]int, len(infos)), groups: g, domains: newDomains(), launched: map[*cluster.PoolCatalog]int{}}
	for _, info := range infos {
		if info.Initialized && info.Index >= 0 {
			n.byInfo[info] = n.add(node{info: info, group: g.ofNode(info), free: info.Free, running: info.PodsByClass()})
		}
	}
	return n
}

func (n *nodes) at(i int) *node { return &n.all[i] }

// find is the index of the node.
func (n *nodes) find(info *cluster.NodeInfo) (int, bool) {
	at, ok := n.byInfo[info]
	return at, ok
}

// add adds a node.
func (n *nodes) add(s node) int {
	at := len(n.all)
	s.emptiness = s.group.share(&s.free)
	s.state = s.stateByCapacity()
	if n.all = append(n.all, s); s.state == open {
		s.group.insert(s.slot(at))
	}
	if s.group.nodes++; s.group.nodes == 1 {
		n.domains.countGroup(s.group, 1)
	}
	return at
}

// removeLast removes the node that was added last.
func (n *nodes) removeLast() {
	at := len(n.all) - 1
	s := &n.all[at]
	if s.state == open {
		s.group.remove(s.slot(at))
	}
	if s.group.nodes--; s.group.nodes == 0 {
		n.domains.countGroup(s.group, -1)
	}
	n.all = n.all[:at]
}

// launch adds a node of that offering.
func (n *nodes) launch(catalog *cluster.PoolCatalog, row int) int {
	n.log = append(n.log, change{kind: launchedNode, catalog: catalog, row: row})
	n.launched[catalog]++
	return n.add(node{group: n.groups.ofOffering(catalog, row), free: catalog.Room(row)})
}

// drain closes a node: its pods need other nodes.
func (n *nodes) drain(at int) {
	s := &n.all[at]
	n.log = append(n.log, change{kind: drainedNode, at: at, state: s.state})
	if s.state == open {
		s.group.remove(s.slot(at))
	}
	s.state = drained
}

// place puts a pod of the class on an open node and counts it.
func (n *nodes) place(c *podClass, at int) {
	n.placeUncounted(c, at)
	n.addToDomainCounts(c, at, 1)
}

// placeUncounted is place without the domain counts.
func (n *nodes) placeUncounted(c *podClass, at int) {
	n.log = append(n.log, change{kind: placed, at: at, class: c})
	n.all[at].arrived = append(n.all[at].arrived, c.PodClass)
	c.movedTo = append(c.movedTo, at)
	n.changeFree(at, c.PodClass, -1)
}

// changeFree subtracts the pod's requests from the node's free capacity, or adds them again.
func (n *nodes) changeFree(at int, c *cluster.PodClass, by int64) {
	s := &n.all[at]
	was := s.slot(at)
	for _, d := range c.Dims {
		s.free[d] += by * c.Requests[d]
	}
	s.emptiness = s.group.share(&s.free)
	state := s.stateByCapacity()
	switch {
	case s.state == open && state == open:
		s.group.update(was, s.slot(at))
	case s.state == open:
		s.group.remove(was)
	case state == open:
		s.group.insert(s.slot(at))
	}
	s.state = state
}

// addToDomainCounts adds a pod of the class on the node to the domain counts, or subtracts it.
func (n *nodes) addToDomainCounts(c *podClass, at, by int) {
	for _, t := range n.domains.countsOf(c) {
		if v := t.value(n.all[at].group); v >= 0 {
			n.changeCount(t, v, by)
		}
	}
}

func (n *nodes) changeCount(t *domainCount, v, by int) {
	t.pods[v] += by
	n.log = append(n.log, change{kind: counted, count: t, value: v, by: by})
}

// change is one change of the nodes, kept so that it can be undone and redone.
type change struct {
	kind changeKind

	at    int       // the node, unless it is launched:
	class *podClass // of the pod that was placed there
	state nodeState // before the node was drained

	catalog *cluster.PoolCatalog // the launched offering
	row     int

	count     *domainCount // that changed
	value, by int
}

type changeKind uint8

const (
	drainedNode changeKind = iota
	placed
	launchedNode
	counted
)

// changes are the changes since the last commit.
func (n *nodes) changes() []change { return slices.Clone(n.log) }

// commit makes the changes permanent.
func (n *nodes) commit() { n.log = n.log[:0] }

// rollback undoes the changes since the last commit.
func (n *nodes) rollback() {
	for i := len(n.log) - 1; i >= 0; i-- {
		n.undo(&n.log[i])
	}
	n.log = n.log[:0]
}

func (n *nodes) undo(c *change) {
	switch c.kind {
	case drainedNode:
		s := &n.all[c.at]
		if s.state = c.state; s.state == open {
			s.group.insert(s.slot(c.at))
		}
	case placed:
		s := &n.all[c.at]
		s.arrived = s.arrived[:len(s.arrived)-1]
		c.class.movedTo = c.class.movedTo[:len(c.class.movedTo)-1]
		n.changeFree(c.at, c.class.PodClass, 1)
	case launchedNode:
		n.removeLast()
		n.launched[c.catalog]--
	case counted:
		c.count.pods[c.value] -= c.by
	}
}

// redo repeats the changes on nodes that are as they were before them.
func (n *nodes) redo(changes []change) {
	for i := range changes {
		switch c := &changes[i]; c.kind {
		case drainedNode:
			n.drain(c.at)
		case placed:
			n.placeUncounted(c.class, c.at)
		case launchedNode:
			n.launch(c.catalog, c.row)
		case counted:
			n.changeCount(c.count, c.value, c.by)
		}
	}
}

// stateByCapacity is open when the node can take a further pod, however small, and else full.
func (s *node) stateByCapacity() nodeState {
	if s.free[quantity.Pods] >= 1 {
		return open
	}
	return full
}

// slot is the node's entry in its group.
func (s *node) slot(at int) slot {
	return slot{at, s.emptiness, s.free[quantity.CPU], s.free[quantity.Memory]}
}

func (s *node) fits(c *cluster.PodClass) bool {
	for _, d := range c.Dims {
		if s.free[d] < c.Requests[d] {
			return false
		}
	}
	return true
}

// antiAffinityAllows reports whether anti-affinity lets a pod of the class run beside the pods
// there.
func (s *node) antiAffinityAllows(c *podClass) bool {
	if len(c.antiAffinity)+len(c.antiAffinityAgainst) == 0 {
		return true
	}
	for _, m := range s.running {
		if c.conflictsWith(m.Class) {
			return false
		}
	}
	return !slices.ContainsFunc(s.arrived, c.conflictsWith)
}
