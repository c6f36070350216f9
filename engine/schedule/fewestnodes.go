// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"slices"

	"github.com/karve-dev/karve/engine/offering"
)

// launchFewestNodes makes one further plan when pods are left out because limits or quota allow no more
// nodes: one of as few nodes as possible, which then are as large as the pods can use, whatever they
// cost. It returns the plan that places more pods.
func (ps *preferenceSearch) launchFewestNodes(s *solver, maxPrice offering.Price) *solver {
	if len(s.launches.all) == 0 || !slices.ContainsFunc(s.podGroups, s.limits.leaveOut) {
		return s
	}
	other := ps.makePlan(directions{first: s.learned.first, policy: policy{fewestNodes: true, largestDomains: true}}, nil, maxPrice)
	if other.placesMoreThan(s) {
		s, other = other, s
	}
	s.searches.inherit(&other.searches, searchNames...)
	return s
}

// leaveOut reports whether pods of the group are left out that some offering suits of which limits or
// quota allow no further node.
func (l *limits) leaveOut(g *podGroup) bool {
	if g.placed == len(g.pods) || g.class.Virtual || g.excluded() {
		return false
	}
	return slices.ContainsFunc(l.pools.all, func(pool *poolState) bool {
		for row := range pool.Compatible(g.shape).All.And(pool.available()).All() {
			if l.nodesAllowed(pool, row) == 0 {
				return true
			}
		}
		return false
	})
}
