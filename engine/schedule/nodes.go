// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"math"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/quantity"
)

// nodes is the nodes that exist or are in flight during one attempt: their free capacity, and
// the pods planned there.
type nodes struct {
	w           *cluster.Snapshot
	preferred   nodePreferences
	counters    *counters
	placements  *placements
	left        map[int]*quantity.Vector                  // free capacity left, by node index
	indexed     map[*cluster.NodeIndex]*cluster.FreeSpace // the same, by slot; see freeSpaces
	many        bool                                      // see fewPods
	mounts      map[int]map[cluster.Mount]bool            // volumes that planned pods attach
	nominations map[int][]cluster.PodRef                  // planned pods, by node index
}

func newNodes(w *cluster.Snapshot, preferred nodePreferences, c *counters, p *placements) nodes {
	return nodes{w: w, preferred: preferred, counters: c, placements: p, many: !fewPods(w),
		left: map[int]*quantity.Vector{}, indexed: map[*cluster.NodeIndex]*cluster.FreeSpace{},
		mounts: map[int]map[cluster.Mount]bool{}, nominations: map[int][]cluster.PodRef{}}
}

// room is the free capacity left on node i. Callers must not change it.
func (s *nodes) room(i int) *quantity.Vector {
	if room := s.left[i]; room != nil {
		return room
	}
	return &s.w.Nodes[i].Free
}

// few is up to how many pods are placed without copies of the snapshot's indexes; with many
// nodes the bound is higher. Without copies, nodes whose capacity was used up meanwhile are
// examined and skipped.
const few = 32

// fewPods reports whether the pending pods are that few.
func fewPods(w *cluster.Snapshot) bool { return w.Pending() <= max(few, len(w.Nodes)/8) }

// freeSpaces is the free capacity by slot of the index. While few pods are to be placed it may
// include capacity that planned pods use.
func (s *nodes) freeSpaces(x *cluster.NodeIndex) *cluster.FreeSpace {
	if own := s.indexed[x]; own != nil {
		return own
	}
	if !s.many || len(s.left) == 0 {
		return x.Free
	}
	own := x.Free.Clone()
	for i, room := range s.left {
		own.Set(x.SlotOf(i), room)
	}
	s.indexed[x] = own
	return own
}

// takes is how many pods of the group node i has capacity for, as far as resources and the
// pods there let it. It does not look at labels and taints.
func (s *nodes) takes(g *podGroup, i int) int {
	if !open(s.w.Nodes[i]) {
		return 0
	}
	room := s.room(i)
	for _, d := range g.shape.Dims {
		if room[d] < g.shape.Requests[d] {
			return 0
		}
	}
	n := math.MaxInt32
	if g.nodeRules.restricted() {
		if s.barred(g, i) {
			return 0
		}
		n = g.nodeRules.room(s.counters, func(c int) int { return s.counters.on(c, i) })
		if n > 0 && len(g.nodeRules.mounts) > 0 {
			left, ok := mounted(*room, g.nodeRules.mounts, func(m cluster.Mount) bool { return s.w.Nodes[i].Mounted[m] || s.mounts[i][m] })
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
func (s *nodes) nominate(g *podGroup, i, n int) {
	room := *s.room(i)
	for _, m := range g.nodeRules.mounts {
		if s.w.Nodes[i].Mounted[m] || s.mounts[i][m] {
			continue
		}
		if s.mounts[i] == nil {
			s.mounts[i] = map[cluster.Mount]bool{}
		}
		s.mounts[i][m] = true
		room[m.Dim]--
	}
	for _, d := range g.shape.Dims {
		room[d] -= g.shape.Requests[d] * int64(n)
	}
	s.use(i, &room)
	for _, c := range g.nodeRules.increments {
		s.counters.plan(c, i, n)
	}
	s.counters.join(g, i)
	s.placements.record(placement{group: g, node: i, pods: n})
	s.nominations[i] = append(s.nominations[i], g.take(n)...)
}

// use records the free capacity left on node i.
func (s *nodes) use(i int, room *quantity.Vector) {
	s.left[i] = room
	for x, own := range s.indexed {
		own.Set(x.SlotOf(i), room)
	}
}

// fill puts pods on nodes that exist or are in flight.
func (s *nodes) fill(g *podGroup) {
	x := s.w.NodeIndex(s.preferred.keys(g.shape.Keys, g.class))
	for _, nodeGroup := range s.preferred.accepting(g, x) {
		seek := nodeRange{x, x.Groups[nodeGroup].From, x.Groups[nodeGroup].To}
		for g.left() > 0 {
			i := s.next(g, &seek)
			if i < 0 {
				break
			}
			s.nominate(g, i, min(g.left(), s.takes(g, i)))
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
func (s *nodes) find(g *podGroup, in *nodeRange) int {
	freeSpaces := s.freeSpaces(in.index)
	if s.w.InWhatIf() {
		return in.index.Find(g.shape, freeSpaces, in.from, in.to)
	}
	return freeSpaces.NextWithRoom(in.from, in.to, &g.shape.Requests, g.shape.Dims)
}

// next returns the index of the range's first node that takes a pod of the group, and moves
// the start of the range there; -1 when there is none.
func (s *nodes) next(g *podGroup, in *nodeRange) int {
	for {
		slot := s.find(g, in)
		if slot < 0 {
			in.from = in.to
			return -1
		}
		in.from = slot
		i := in.index.NodeAt(slot)
		if s.takes(g, i) > 0 && (!g.shape.UsesHostname || s.w.Nodes[i].Accepts(g.shape)) {
			return i
		}
		in.from++
	}
}
