// SPDX-License-Identifier: Apache-2.0

package metrics

import "github.com/karve-dev/karve/engine/schedule"

// CountCutShort counts the searches of a plan that were cut short.
func (s *Set) CountCutShort(searches []schedule.CutShort) {
	for _, c := range searches {
		s.PlanCutShort.WithLabelValues(string(c.Search)).Inc()
	}
}
