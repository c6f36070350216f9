// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
)

// MostSteps bounds what improve does for one plan.
const MostSteps = maxImproveSteps

// SolveWithin is Solve without preferences, with that many steps for improve. It also returns
// how many steps improve took.
func SolveWithin(snapshot *cluster.Snapshot, steps int) (Plan, int) {
	ps := newPreferenceSearch(snapshot)
	ps.options.budgets[Improvement] = steps
	s := ps.makeAttempt(nil, noMaxPrice)
	return s.plan(), s.searches.improveSteps
}

// Searches lists the searches that steps bound.
func Searches() []Search { return searchNames }

// SolveWithBudget is Solve with another budget for one search.
func SolveWithBudget(snapshot *cluster.Snapshot, of Search, steps int) Plan {
	ps := newPreferenceSearch(snapshot)
	ps.options.budgets[of] = steps
	return ps.solve()
}

// PolicyPrices is what a plan costs by the zero policy, by the best policy of the portfolio, and by the
// best of all but largestDomains, in USD/h. Plans that place fewer pods than the one by the zero policy
// do not count.
func PolicyPrices(snapshot *cluster.Snapshot) (zero, best, bestOfAll float64) {
	ps := withoutPreferences(snapshot)
	first := ps.makePlan(newLearned(), nil, noMaxPrice)
	zero = first.finalPrice().USD()
	best, bestOfAll = zero, zero
	for i := range 1 << 5 {
		l := newLearned()
		l.policy = policy{fewestNodes: i&1 > 0, anyPriority: i&2 > 0, cheapestDomains: i&4 > 0, smallestFirst: i&8 > 0, largestFirst: i&16 > 0}
		s := ps.makePlan(l, nil, noMaxPrice)
		if first.placesMoreThan(s) {
			continue
		}
		price := s.finalPrice().USD()
		bestOfAll = min(bestOfAll, price)
		if slices.Contains(portfolio, l.policy) {
			best = min(best, price)
		}
	}
	return zero, best, bestOfAll
}
