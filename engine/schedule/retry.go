// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"cmp"
	"slices"
)

// mostSecond bounds how many pods one call of retryUnplaced places: each costs a walk over
// the launches.
const mostSecond = 256

// retryUnplaced places pods that were left out although some node can hold them: pods that
// prevented it during assignment may have been left out since, and pods that they must join may
// have a place now. It places one pod at a time, counts only pods that have a place, as
// kube-scheduler will, and opens no domain that some spread does not count.
func (s *solver) retryUnplaced(virtual bool) {
	left := s.overlooked(virtual)
	if len(left) == 0 {
		return
	}
	s.topology.confined = true
	defer func() { s.topology.confined = false }()
	for _, t := range s.topology.order {
		if len(t.keys) > 0 {
			t.opened = s.topology.opened(t)
		}
	}
	budget := mostSecond
	for again := true; again && budget > 0; {
		again = false
		for _, k := range left {
			n := s.oneByOne(k, budget)
			budget -= n
			again = again || n > 0
		}
	}
}

// overlooked lists the pod groups with pods that were left out, without those for which
// nothing has changed.
func (s *solver) overlooked(virtual bool) []*podGroup {
	var out []*podGroup
	for _, k := range s.podGroups {
		if k.placed == len(k.Pods) || k.Virtual != virtual || k.PodClass.Refused != "" {
			continue
		}
		if s.launches.returned || s.learned.unplaceable[k.PodClass] || len(k.keys) > 0 || len(k.nodeRules.needs) > 0 {
			k.promised = 0 // for allotments that failed
			out = append(out, k)
		}
	}
	slices.SortStableFunc(out, func(x, y *podGroup) int { return cmp.Compare(y.Priority, x.Priority) })
	return out
}

// oneByOne places pods of the group, up to n where each depends on those before, and returns
// how many it placed.
func (s *solver) oneByOne(k *podGroup, n int) int {
	before := k.placed
	if k.left() == 0 {
		return 0
	}
	if len(k.keys) == 0 {
		s.nodes.fill(k)
		s.buyAll(k.promise(nil, k.left()))
		k.promised = 0
		return k.placed - before
	}
	cells := s.cells(k)
	for k.left() > 0 && k.placed-before < n {
		best := s.bestCell(k, cells)
		if best == nil {
			break
		}
		if !s.one(k, best) {
			best.cap, best.want, best.hosts = 0, 0, nil
		}
	}
	return k.placed - before
}

// one places one pod in a cell: on a node, on a planned launch, or on a new one.
func (s *solver) one(k *podGroup, c *cell) bool {
	if i := s.nodes.hostIn(k, c); i >= 0 {
		k.count(c, 1)
		s.nodes.nominate(k, i, 1)
		return true
	}
	before := k.placed
	s.buyAll(k.promise(c, 1))
	k.promised = 0
	if k.placed == before {
		return false
	}
	k.count(c, 1)
	return true
}
