// SPDX-License-Identifier: Apache-2.0

package schedule

import "github.com/karve-dev/karve/engine/cluster"

// MostSteps bounds what improve does for one plan.
const MostSteps = mostSteps

// SolveWithin is Solve without preferences, with that many steps for improve. It also returns
// how many steps improve took.
func SolveWithin(w *cluster.Snapshot, steps int) (Plan, int) {
	b := newPreferenceSearch(w)
	b.steps = steps
	s := b.attempt(nil, noMaxPrice)
	return s.plan(), s.improved.steps
}
