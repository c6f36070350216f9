// SPDX-License-Identifier: Apache-2.0

package schedule

import "github.com/karve-dev/karve/engine/cluster"

// MostSteps bounds what improve does for one plan.
const MostSteps = maxImproveSteps

// SolveWithin is Solve without preferences, with that many steps for improve. It also returns
// how many steps improve took.
func SolveWithin(snapshot *cluster.Snapshot, steps int) (Plan, int) {
	ps := newPreferenceSearch(snapshot)
	ps.options.maxImproveSteps = steps
	s := ps.makeAttempt(nil, noMaxPrice)
	return s.plan(), s.improved.steps
}
