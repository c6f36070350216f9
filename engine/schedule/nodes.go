// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"math"
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/quantity"
)

// nodes is the nodes that exist or are in flight during one round: their free capacity, and
// the pods planned there.
type nodes struct {
	snapshot    *cluster.Snapshot
	preferred   nodePreferences
	counters    *counters
	placements  *placements
	freeLeft    map[int]*quantity.Vector                     // free capacity left, by node index
	freeByIndex map[*cluster.NodeIndex]*cluster.FreeCapacity // the same, by slot; see freeSpaces
	manyPods    bool                                         // see fewPods
	mounts      map[int]map[cluster.Mount]bool               // volumes that planned pods attach
	nominations map[int][]cluster.PodRef                     // planned pods, by node index
	spared      sparedNodes
}

func newNodes(snapshot *cluster.Snapshot, preferred nodePreferences, c *counters, p *placements) nodes {
	return nodes{snapshot: snapshot, preferred: preferred, counters: c, placements: p, manyPods: !fewPods(snapshot),
		freeLeft: map[int]*quantity.Vector{}, freeByIndex: map[*cluster.NodeIndex]*cluster.FreeCapacity{},
		mounts: map[int]map[cluster.Mount]bool{}, nominations: map[int][]cluster.PodRef{}, spared: sparedNodes{snapshot: snapshot, terms: c.antiAffinityTerms}}
}

// free is the free capacity left on node i. Callers must not change it.
func (ns *nodes) free(i int) *quantity.Vector {
	if room := ns.freeLeft[i]; room != nil {
		return room
	}
	return &ns.snapshot.Nodes[i].Free
}

// fewPodsLimit is up to how many pods are placed without copies of the snapshot's indexes; with
// many nodes the bound is higher. Without copies, nodes whose capacity was used up meanwhile
// are examined and skipped.
const fewPodsLimit = 32

// fewPods reports whether the pending pods are that few.
func fewPods(snapshot *cluster.Snapshot) bool {
	return snapshot.PodsToPlace() <= max(fewPodsLimit, len(snapshot.Nodes)/8)
}

// freeSpaces is the free capacity by slot of the index. While few pods are to be placed it may
// include capacity that planned pods use.
func (ns *nodes) freeSpaces(x *cluster.NodeIndex) *cluster.FreeCapacity {
	if own := ns.freeByIndex[x]; own != nil {
		return own
	}
	if !ns.manyPods || len(ns.freeLeft) == 0 {
		return x.Free
	}
	own := x.Free.Clone()
	for i, room := range ns.freeLeft {
		own.Set(x.SlotOf(i), room)
	}
	ns.freeByIndex[x] = own
	return own
}

// roomFor is how many pods of the group node i has capacity for, as far as resources and the
// pods there let it. It does not look at labels and taints.
func (ns *nodes) roomFor(g *podGroup, i int) int {
	if !takesPods(ns.snapshot.Nodes[i]) {
		return 0
	}
	room := ns.free(i)
	for _, d := range g.shape.Dims {
		if room[d] < g.shape.Requests[d] {
			return 0
		}
	}
	n := math.MaxInt32
	if g.nodeRules.restricted() {
		if ns.keptOff(g, i) {
			return 0
		}
		n = g.nodeRules.roomFor(ns.counters, func(c int) int { return ns.counters.countOn(c, i) })
		if n > 0 && len(g.nodeRules.mounts) > 0 {
			left, ok := mounted(*room, g.nodeRules.mounts, func(m cluster.Mount) bool { return ns.snapshot.Nodes[i].Mounted[m] || ns.mounts[i][m] })
			if !ok {
				return 0
			}
			return min(n, g.countFitting(&left))
		}
	}
	return min(n, g.countFitting(room))
}

// mounted subtracts volumes that are not attached yet from room; false when they do not fit.
func mounted(room quantity.Vector, mounts []cluster.Mount, attached func(cluster.Mount) bool) (quantity.Vector, bool) {
	for _, m := range mounts {
		if attached(m) {
			continue
		}
		if room[m.Dim]--; room[m.Dim] < 0 {
			return room, false
		}
	}
	return room, true
}

// nominate plans n pods of the group for node i.
func (ns *nodes) nominate(g *podGroup, i, n int) {
	room := *ns.free(i)
	for _, m := range g.nodeRules.mounts {
		if ns.snapshot.Nodes[i].Mounted[m] || ns.mounts[i][m] {
			continue
		}
		if ns.mounts[i] == nil {
			ns.mounts[i] = map[cluster.Mount]bool{}
		}
		ns.mounts[i][m] = true
		room[m.Dim]--
	}
	for _, d := range g.shape.Dims {
		room[d] -= g.shape.Requests[d] * int64(n)
	}
	ns.setFree(i, &room)
	for _, c := range g.nodeRules.increments {
		ns.counters.addPlanned(c, i, n)
	}
	ns.counters.addResidents(g, i)
	takeDomains(g.domainRules, func(r *domainRule) int {
		if v, ok := ns.snapshot.Nodes[i].Value(r.count.key); ok {
			return v
		}
		return -1
	})
	for _, selector := range g.nodeRules.repels {
		ns.spared.add(i, selector)
	}
	ns.placements.record(placement{group: g, node: i, count: n})
	ns.nominations[i] = append(ns.nominations[i], g.take(n)...)
}

// setFree records the free capacity left on node i.
func (ns *nodes) setFree(i int, room *quantity.Vector) {
	ns.freeLeft[i] = room
	for x, own := range ns.freeByIndex {
		own.Set(x.SlotOf(i), room)
	}
}

// fill puts pods on nodes that exist or are in flight.
func (ns *nodes) fill(g *podGroup) {
	x := ns.snapshot.NodeIndex(ns.preferred.keys(g.shape.Keys, g.class))
	for _, nodeGroup := range ns.preferred.accepting(g, x) {
		seek := nodeRange{x, x.Groups[nodeGroup].From, x.Groups[nodeGroup].To}
		for g.unassigned() > 0 {
			i := ns.next(g, &seek)
			if i < 0 {
				break
			}
			ns.nominate(g, i, min(g.unassigned(), ns.roomFor(g, i)))
			seek.from++
		}
	}
}

// nodeRange is slots of one index that are still to be examined.
type nodeRange struct {
	index    *cluster.NodeIndex
	from, to int // slots
}

// nodeRanges are the nodes of an index group: as one range, or one range each.
func nodeRanges(x *cluster.NodeIndex, group int, apart bool) []nodeRange {
	g := x.Groups[group]
	if !apart {
		return []nodeRange{{x, g.From, g.To}}
	}
	out := make([]nodeRange, 0, g.To-g.From)
	for slot := g.From; slot < g.To; slot++ {
		out = append(out, nodeRange{x, slot, slot + 1})
	}
	return out
}

// find returns the first slot of the range that may have capacity for a pod of the group; -1
// when there is none.
func (ns *nodes) find(g *podGroup, in *nodeRange) int {
	freeSpaces := ns.freeSpaces(in.index)
	if ns.snapshot.InWhatIf() {
		return in.index.Find(g.shape, freeSpaces, in.from, in.to)
	}
	return freeSpaces.NextFitting(in.from, in.to, &g.shape.Requests, g.shape.Dims)
}

// next returns the index of the range's first node that takes a pod of the group, and moves
// the start of the range there; -1 when there is none.
func (ns *nodes) next(g *podGroup, in *nodeRange) int {
	skips := g.nodeRules.mayBeRepelled && ns.manyPods && !ns.snapshot.InWhatIf()
	for {
		if skips {
			if in.from = ns.spared.next(g.class, in.index, in.from); in.from < 0 || in.from >= in.to {
				in.from = in.to
				return -1
			}
		}
		slot := ns.find(g, in)
		if slot < 0 {
			in.from = in.to
			return -1
		}
		in.from = slot
		i := in.index.PositionOf(slot)
		if ns.roomFor(g, i) > 0 && (!g.shape.UsesHostname || ns.snapshot.Nodes[i].Accepts(g.shape)) {
			return i
		}
		in.from++
	}
}

// keptOff reports whether pods on node i, running or planned, keep the group off it by their
// anti-affinity or the group's.
func (ns *nodes) keptOff(g *podGroup, i int) bool {
	rules := &g.nodeRules
	if !rules.mayBeRepelled && len(rules.avoids) == 0 {
		return false
	}
	if planned := ns.counters.plannedResidents[i]; planned != nil && planned.keepOff(rules) {
		return true
	}
	return slices.ContainsFunc(ns.snapshot.Nodes[i].PodsByClass(), func(m cluster.ClassCount) bool {
		return m.Pods > 0 && (g.class.Virtual || !m.Class.Virtual) && (slices.ContainsFunc(rules.avoids, m.Class.Selectors().Has) || g.repelledBy(m.Class))
	})
}

// hasRoom reports whether one more pod of the group has capacity in the cell: on a node, or on a
// launch.
func (ns *nodes) hasRoom(g *podGroup, c *cell) bool {
	return ns.nodeIn(g, c) >= 0 || c.price >= 0 && (c.maxPods < 0 || c.assigned+c.wanted < c.maxPods)
}

// nodeIn returns the index of the cell's first node that takes one more pod; -1 if there is
// none.
func (ns *nodes) nodeIn(g *podGroup, c *cell) int {
	for len(c.nodes) > 0 {
		if i := ns.next(g, &c.nodes[0]); i >= 0 {
			return i
		}
		c.nodes = c.nodes[1:]
	}
	return -1
}

// takesPods reports whether decisions may place pods on the node: such nodes are in
// Snapshot.Nodes.
func takesPods(node *cluster.NodeInfo) bool { return node.Index >= 0 }
