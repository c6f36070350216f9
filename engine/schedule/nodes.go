package schedule

import (
	"math"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/quantity"
)

// room is what is left on host i; it must not be changed.
func (s *solver) room(i int) *quantity.Vector {
	if room := s.used[i]; room != nil {
		return room
	}
	return &s.w.Nodes[i].Free
}

// few is how many pods are placed without copies of the World's indexes, and more where
// there are many hosts: rooms that were used up meanwhile are then found by looking.
const few = 32

// fewPods reports whether so few pods are to be placed.
func fewPods(w *cluster.Snapshot) bool { return w.Pending() <= max(few, len(w.Nodes)/8) }

// rooms is the room left by slot of the index, or more than that while few pods
// are to be placed.
func (s *solver) rooms(x *cluster.NodeIndex) *cluster.FreeSpace {
	if own := s.indexed[x]; own != nil {
		return own
	}
	if !s.many || len(s.used) == 0 {
		return x.Free
	}
	own := x.Free.Clone()
	for i, room := range s.used {
		own.Set(x.SlotOf(i), room)
	}
	s.indexed[x] = own
	return own
}

// takes is how many pods of the class host i has room for, as far as resources
// and its neighbours there go; labels and taints are another question.
func (s *solver) takes(k *podGroup, i int) int {
	if !open(s.w.Nodes[i]) {
		return 0
	}
	room := s.room(i)
	for _, d := range k.Dims {
		if room[d] < k.Requests[d] {
			return 0
		}
	}
	n := math.MaxInt32
	if k.nodeRules.restricted() {
		if s.barred(k, i) {
			return 0
		}
		n = k.nodeRules.room(&s.counters, func(c int) int { return s.counters.on(c, i) })
		if n > 0 && len(k.nodeRules.mounts) > 0 {
			left, ok := mounted(*room, k.nodeRules.mounts, func(m cluster.Mount) bool { return s.w.Nodes[i].Mounted[m] || s.mounts[i][m] })
			if !ok {
				return 0
			}
			return min(n, k.fits(&left))
		}
	}
	return min(n, k.fits(room))
}

// mounted takes volumes that are not attached yet off the room; false when they
// do not fit.
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

// nominate promises host i to n pods of the class.
func (s *solver) nominate(k *podGroup, i, n int) {
	room := *s.room(i)
	for _, m := range k.nodeRules.mounts {
		if s.w.Nodes[i].Mounted[m] || s.mounts[i][m] {
			continue
		}
		if s.mounts[i] == nil {
			s.mounts[i] = map[cluster.Mount]bool{}
		}
		s.mounts[i][m] = true
		room[m.Dim]--
	}
	for _, d := range k.Dims {
		room[d] -= k.Requests[d] * int64(n)
	}
	s.use(i, &room)
	for _, c := range k.nodeRules.increments {
		s.counters.plan(c, i, n)
	}
	s.counters.join(k, i)
	s.recordPlacement(placement{work: k, host: i, pods: n})
	s.nominees[i] = append(s.nominees[i], k.take(n)...)
}

// use notes what is left on host i.
func (s *solver) use(i int, room *quantity.Vector) {
	s.used[i] = room
	for x, own := range s.indexed {
		own.Set(x.SlotOf(i), room)
	}
}

// fillHosts puts pods on nodes that exist or are on their way.
func (s *solver) fillNodes(k *podGroup) {
	x := s.w.NodeIndex(s.search.minding(k.Keys, k.PodClass))
	for _, g := range s.accepting(k, x) {
		seek := nodeRange{x, x.Groups[g].From, x.Groups[g].To}
		for k.left() > 0 {
			i := s.next(k, &seek)
			if i < 0 {
				break
			}
			s.nominate(k, i, min(k.left(), s.takes(k, i)))
			seek.from++
		}
	}
}

// nodeRange is hosts of one index that are still to be looked at.
type nodeRange struct {
	index    *cluster.NodeIndex
	from, to int // slots
}

// nodeRanges are the hosts of a group: together, or each for itself.
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

// find returns the first slot of the stretch that may have room for a pod of the class, -1
// when there is none.
func (s *solver) find(k *podGroup, in *nodeRange) int {
	rooms := s.rooms(in.index)
	if s.w.InWhatIf() {
		return in.index.Find(k.PodShape, rooms, in.from, in.to)
	}
	return rooms.NextWithRoom(in.from, in.to, &k.Requests, k.Dims)
}

// next returns the first host of the stretch that takes a pod of the class,
// leaving out of it what comes before; -1 when there is none.
func (s *solver) next(k *podGroup, in *nodeRange) int {
	for {
		slot := s.find(k, in)
		if slot < 0 {
			in.from = in.to
			return -1
		}
		in.from = slot
		i := in.index.NodeAt(slot)
		if s.takes(k, i) > 0 && (!k.UsesHostname || s.w.Nodes[i].Accepts(k.PodShape)) {
			return i
		}
		in.from++
	}
}
