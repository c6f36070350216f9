// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"math"
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/quantity"
)

// launch is a node the plan launches.
type launch struct {
	pool         *poolState
	row          int
	free         quantity.Vector // the offering's allocatable, less what the pods use
	used         quantity.Vector // what the pods ask for
	requirements *nodeRequirements
	pods         []cluster.PodRef
	loads        []load      // the same pods, in order
	kinds        []*podGroup // the pod groups of the pods, each once
	first        int         // the first offering, once chosen

	counts map[int]int // counters above zero
	residents
	mounts map[cluster.Mount]bool
	// least is the variety that the launch must keep, claim is what it counts against its
	// pool's limits; nil without minValues.
	least []int
	claim *quantity.Vector
}

// fillLaunches puts pods on nodes that are to be launched already.
func (s *solver) fillLaunches(parts []*allotment) {
	for _, p := range parts {
		for _, l := range s.launches.all {
			if p.left() == 0 {
				break
			}
			n := min(p.left(), l.takes(&s.counters, p.podGroup))
			if n == 0 {
				continue
			}
			next, ok := s.requirements.join(l.requirements, l.pool, l.row, s.compatibility.fit(l.pool, p), p)
			if !ok {
				continue
			}
			if n = l.diverse(&s.variety, next, p.podGroup, n); n > 0 {
				l.requirements = next
				s.launches.put(l, p, n)
			}
		}
	}
}

// takes is how many pods of the group the launch has capacity for.
func (l *launch) takes(t *counters, k *podGroup) int {
	n := k.fits(&l.free)
	if l.bars(&k.nodeRules) {
		return 0
	}
	if n > 0 && k.spreads() {
		for _, o := range l.kinds {
			n = min(n, k.ahead(o, func(c int) int { return l.counts[c] }))
		}
	}
	if n == 0 || !k.nodeRules.restricted() {
		return n
	}
	n = min(n, k.nodeRules.room(t, func(c int) int { return l.counts[c] }))
	if n > 0 && len(k.nodeRules.mounts) > 0 {
		left, ok := mounted(l.free, k.nodeRules.mounts, func(m cluster.Mount) bool { return l.mounts[m] })
		if !ok {
			return 0
		}
		n = min(n, k.fits(&left))
	}
	return n
}

// note counts pods that the pool's nodes are launched for.
func (m *poolState) note(k *podGroup, n int) {
	m.pods[k.PodClass.PodShape] += n
	for _, c := range k.nodeRules.caps {
		if c.own {
			a := m.crowded[c.counter]
			m.crowded[c.counter] = apartness{pods: a.pods + n, most: max(a.most, c.most)}
		}
	}
}

// launchList is the nodes that an attempt launches.
type launchList struct {
	all        []*launch
	counters   *counters
	placements *placements
	// returned is set once launches were dropped, and their limits and quota released.
	returned bool
}

// put puts n pods of the allotment on the launch.
func (t *launchList) put(l *launch, p *allotment, n int) {
	for _, c := range p.nodeRules.increments {
		t.counters.all[c].sum += n
	}
	p.placed += n
	p.podGroup.promised -= n
	l.pool.note(p.podGroup, n)
	t.placements.record(placement{work: p.podGroup, launch: l, pods: n})
	l.hold(p, p.take(n))
}

// hold adds the pods.
func (l *launch) hold(p *allotment, pods []cluster.PodRef) {
	n := len(pods)
	for _, d := range p.Dims {
		l.free[d] -= int64(n) * p.Requests[d]
		l.used[d] += int64(n) * p.Requests[d]
	}
	for _, m := range p.nodeRules.mounts {
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
	l.join(&p.nodeRules)
	for _, c := range p.nodeRules.increments {
		if l.counts == nil {
			l.counts = map[int]int{}
		}
		l.counts[c] += n
	}
	if !slices.Contains(l.kinds, p.podGroup) {
		l.kinds = append(l.kinds, p.podGroup)
	}
	l.loads = append(l.loads, load{p, n})
	if l.pods == nil {
		l.pods = pods[:len(pods):len(pods)]
		return
	}
	l.pods = append(l.pods, pods...)
}

// fits is Vector.Fits for only the resources that the group asks for.
func (k *podGroup) fits(room *quantity.Vector) int {
	most := int64(math.MaxInt32)
	for _, d := range k.Dims {
		if room[d] < k.Requests[d] {
			return 0
		}
		most = min(most, room[d]/k.Requests[d])
	}
	return int(max(0, most))
}
