package pack

import (
	"math"

	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/world"
)

// room is what is left on host i; it must not be changed.
func (s *solver) room(i int) *quantity.Vector {
	if s.used[i] != nil {
		return s.used[i]
	}
	return &s.w.Hosts[i].Free
}

// takes is how many pods of the class host i has room for, as far as resources
// and its neighbours there go; labels and taints are another question.
func (s *solver) takes(k *work, i int) int {
	room := s.room(i)
	for _, d := range k.Dims {
		if room[d] < k.Requests[d] {
			return 0
		}
	}
	n := math.MaxInt32
	if k.local.restricted() {
		n = k.local.room(s.counters.all, func(c int) int { return s.counters.all[c].on[i] })
		if n > 0 && len(k.local.mounts) > 0 {
			left, ok := mounted(*room, k.local.mounts, func(m world.Mount) bool { return s.w.Hosts[i].Mounted[m] || s.mounts[i][m] })
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
func mounted(room quantity.Vector, mounts []world.Mount, attached func(world.Mount) bool) (quantity.Vector, bool) {
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
func (s *solver) nominate(k *work, i, n int) {
	room := *s.room(i)
	for _, m := range k.local.mounts {
		if s.w.Hosts[i].Mounted[m] || s.mounts[i][m] {
			continue
		}
		if s.mounts[i] == nil {
			s.mounts[i] = map[world.Mount]bool{}
		}
		s.mounts[i][m] = true
		room[m.Dim]--
	}
	room = room.Sub(k.Requests.Times(n))
	s.used[i] = &room
	for _, c := range k.local.bumps {
		s.counters.all[c].on[i] += n
		s.counters.all[c].total += n
	}
	s.nominees[i] = append(s.nominees[i], k.take(n)...)
}

// fillHosts puts pods on nodes that exist or are on their way.
func (s *solver) fillHosts(k *work) {
	for i, h := range s.w.Hosts {
		if k.left() == 0 {
			return
		}
		n := min(k.left(), s.takes(k, i))
		if n > 0 && h.Accepts(k.Shape) {
			s.nominate(k, i, n)
		}
	}
}
