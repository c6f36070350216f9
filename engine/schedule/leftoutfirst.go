// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
)

// maxReorderedPods bounds for how many pods placeLeftOutFirst makes plans: each takes as long as the first.
const maxReorderedPods = 200

// placeLeftOutFirst makes further plans: in each, the classes that were left out come first, one class
// after the other, and even before those of higher priority. It returns the plan that places the most
// pods.
//
// Classes are otherwise placed in an order that knows nothing of the places that those after them
// could use. A pod that fits anywhere may then take the only place of another one: room on a node,
// a domain of a spread, or the last node that the limits allow.
func (ps *preferenceSearch) placeLeftOutFirst(s *solver, maxPrice offering.Price) *solver {
	if !compete(s.podGroups) {
		return s
	}
	best := s
	var tried [][]*cluster.PodClass
	for {
		next := s.learned.firstAfter(s.podGroups)
		if len(next) == 0 || slices.ContainsFunc(tried, func(o []*cluster.PodClass) bool { return slices.Equal(o, next) }) {
			break
		}
		if len(tried) == ps.options.budgets[Orders] {
			best.searches.cut(Orders, countLeftOut(best.podGroups))
			break
		}
		tried = append(tried, next)
		s = ps.makePlan(directions{first: next, policy: s.learned.policy}, nil, maxPrice)
		other := s
		if s.placesMoreThan(best) {
			best, other = s, best
		}
		best.searches.inherit(&other.searches, searchNames...)
	}
	return best
}

// countLeftOut is how many pods of the groups have no place.
func countLeftOut(groups []*podGroup) int {
	n := 0
	for _, g := range groups {
		n += len(g.pods) - g.placed
	}
	return n
}

// compete reports whether some pods of the groups may have the places of others, and the pods are
// few.
func compete(groups []*podGroup) bool {
	pods, placed := 0, 0
	for _, g := range groups {
		pods += len(g.pods)
		placed += g.placed
	}
	return pods <= maxReorderedPods && placed > 0 && len(groups) > 1
}

// firstAfter are the classes to come first in the next plan, by priority: those with pods that were left
// out, the smallest first, as more of those have a place where they compete for room, and then the others
// that came first.
func (l *learned) firstAfter(groups []*podGroup) []*cluster.PodClass {
	var out []*cluster.PodClass
	for _, g := range slices.Backward(groups) {
		if g.placed < len(g.pods) && !g.class.Virtual && g.class.Refused == "" && !slices.Contains(out, g.class) {
			out = append(out, g.class)
		}
	}
	if len(out) == 0 {
		return nil
	}
	for _, c := range l.first {
		if !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, comparePlacingOrder)
	return out
}

// rankFirst is the class's position among those that come first, or that of the first class with
// which it is colocated; negative when it does not come first.
func (l *learned) rankFirst(c *cluster.PodClass) int {
	if len(l.first) == 0 || l.joinLast[c] {
		return -1
	}
	if !l.isColocated(c) {
		return slices.Index(l.first, c)
	}
	together := l.colocated[l.colocationOf[c]]
	return slices.IndexFunc(l.first, func(o *cluster.PodClass) bool { return slices.Contains(together, o) })
}
