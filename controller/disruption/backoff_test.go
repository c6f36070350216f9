// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"testing"
	"time"
)

// Failures count while no replacement initializes; one that does resets them.
//
// Rule MOVE-4.
func TestPoolBacksOffAfterFailuresInARow(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	pools := map[string]bool{"web": true}
	for name, tc := range map[string]struct {
		course string // f: a move fails, s: another's replacements initialize
		rest   time.Duration
	}{
		"two are borne":               {"ff", 0},
		"three are not":               {"fff", time.Minute},
		"a fourth doubles the rest":   {"ffff", 2 * time.Minute},
		"what went well counts":       {"ffsff", 0},
		"and begins a row of its own": {"ffsfff", time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			var b backOffs
			for round, what := range tc.course {
				s := &view{now: now, round: round + 1}
				if what == 's' {
					b.poolsSucceeded(pools)
					continue
				}
				b.poolsFailed(pools, s)
				b.poolsFailed(pools, s) // two moves at once
			}
			if got := b.pool("web").Until.Sub(now); max(got, 0) != tc.rest {
				t.Errorf("after %s the pool rests for %s, want %s", tc.course, got, tc.rest)
			}
		})
	}
}
