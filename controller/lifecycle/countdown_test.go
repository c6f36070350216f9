// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"
	"time"
)

// A claim that is launching keeps its time when the wall clock is set, forward or back. What has passed
// before this process first saw it counts by the wall clock, and a clock that was set back before that
// gives no more than the whole time.
//
// Rule LAUNCH-15.
func TestTimeoutsOutliveStepsOfTheClock(t *testing.T) {
	const takes = 5 * time.Minute
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(d time.Duration) time.Time { return start.Add(d) }
	for name, tc := range map[string]struct {
		first, second time.Duration // by the wall clock; a minute apart by the monotonic one
		want          time.Duration // left at the second
	}{
		"no step":                    {2 * time.Minute, 3 * time.Minute, 2 * time.Minute},
		"an hour forward":            {2 * time.Minute, 63 * time.Minute, 2 * time.Minute},
		"an hour back":               {2 * time.Minute, -57 * time.Minute, 2 * time.Minute},
		"an hour back before":        {-58 * time.Minute, -57 * time.Minute, 4 * time.Minute},
		"over when it is first seen": {7 * time.Minute, 8 * time.Minute, -3 * time.Minute},
	} {
		var c countdowns
		c.left("web-1", "Launched", start, takes, at(tc.first), at(0))
		if got := c.left("web-1", "Launched", start, takes, at(tc.second), at(time.Minute)); got != tc.want {
			t.Errorf("%s: %v left, want %v", name, got, tc.want)
		}
		if got := c.left("web-1", "Registered", start, takes, at(0), at(time.Minute)); got != takes {
			t.Errorf("%s: %v left for another condition, want %v", name, got, takes)
		}
		if got := c.left("web-1", "Launched", at(time.Hour), takes, at(time.Hour), at(time.Minute)); got != takes {
			t.Errorf("%s: %v left since the condition changed, want %v", name, got, takes)
		}
		if c.forget("web-1"); len(c.ends) > 0 {
			t.Errorf("%s: %d claims are remembered, want none", name, len(c.ends))
		}
	}
}
