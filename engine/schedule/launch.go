package schedule

import (
	"math"
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/quantity"
)

// launch is a machine the plan buys.
type launch struct {
	stall *stall
	row   int
	free  quantity.Vector // what is left of the row's room
	used  quantity.Vector // what pods ask for
	joint *joint
	pods  []cluster.PodRef
	loads []load  // the same pods, in order
	kinds []*work // that pods are of, each once
	first int     // the row of the first choice, once described

	counts map[int]int // counters above zero
	residents
	mounts map[cluster.Mount]bool
	// least is the variety it must keep, and claim what it takes of its pool's limits; nil without minValues.
	least []int
	claim *quantity.Vector
}

// fillLaunches puts pods into what is being bought already.
func (s *solver) fillLaunches(parts []*part) {
	for _, p := range parts {
		for _, l := range s.launches {
			if p.left() == 0 {
				break
			}
			n := min(p.left(), l.takes(s, p.work))
			if n == 0 {
				continue
			}
			next, ok := s.join(l.joint, l.stall, l.row, s.fit(l.stall, p), p)
			if !ok {
				continue
			}
			if n = l.diverse(s, next, p.work, n); n > 0 {
				l.joint = next
				l.put(s, p, n)
			}
		}
	}
}

// takes is how many pods of the class the launch has room for.
func (l *launch) takes(s *solver, k *work) int {
	n := k.fits(&l.free)
	if l.bars(&k.local) {
		return 0
	}
	if n > 0 && k.evens() {
		for _, o := range l.kinds {
			n = min(n, k.ahead(o, func(c int) int { return l.counts[c] }))
		}
	}
	if n == 0 || !k.local.restricted() {
		return n
	}
	n = min(n, k.local.room(&s.counters, func(c int) int { return l.counts[c] }))
	if n > 0 && len(k.local.mounts) > 0 {
		left, ok := mounted(l.free, k.local.mounts, func(m cluster.Mount) bool { return l.mounts[m] })
		if !ok {
			return 0
		}
		n = min(n, k.fits(&left))
	}
	return n
}

// note counts pods that the market's machines are bought for.
func (m *stall) note(k *work, n int) {
	m.pods[k.PodClass.PodShape] += n
	for _, c := range k.local.caps {
		if c.own {
			a := m.crowded[c.counter]
			m.crowded[c.counter] = apartness{pods: a.pods + n, most: max(a.most, c.most)}
		}
	}
}

func (l *launch) put(s *solver, p *part, n int) {
	for _, c := range p.local.bumps {
		s.counters.all[c].sum += n
	}
	p.placed += n
	p.work.promised -= n
	l.stall.note(p.work, n)
	s.house(home{work: p.work, launch: l, pods: n})
	l.hold(p, p.take(n))
}

// hold takes the pods in.
func (l *launch) hold(p *part, pods []cluster.PodRef) {
	n := len(pods)
	for _, d := range p.Dims {
		l.free[d] -= int64(n) * p.Requests[d]
		l.used[d] += int64(n) * p.Requests[d]
	}
	for _, m := range p.local.mounts {
		if l.mounts[m] {
			continue
		}
		if l.mounts == nil {
			l.mounts = map[cluster.Mount]bool{}
		}
		l.mounts[m] = true
		l.free[m.Dim]--
		l.used[m.Dim]++
	}
	l.join(&p.local)
	for _, c := range p.local.bumps {
		if l.counts == nil {
			l.counts = map[int]int{}
		}
		l.counts[c] += n
	}
	if !slices.Contains(l.kinds, p.work) {
		l.kinds = append(l.kinds, p.work)
	}
	l.loads = append(l.loads, load{p, n})
	if l.pods == nil {
		l.pods = pods[:len(pods):len(pods)]
		return
	}
	l.pods = append(l.pods, pods...)
}

// fits is Vector.Fits looking only at the resources the class asks for.
func (k *work) fits(room *quantity.Vector) int {
	most := int64(math.MaxInt32)
	for _, d := range k.Dims {
		if room[d] < k.Requests[d] {
			return 0
		}
		most = min(most, room[d]/k.Requests[d])
	}
	return int(max(0, most))
}
