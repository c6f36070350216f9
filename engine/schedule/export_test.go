// SPDX-License-Identifier: Apache-2.0

package schedule

import "github.com/karve-dev/karve/engine/cluster"

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
