// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"sync"
	"time"
)

// countdowns say how long conditions of claims may still take. When a condition changed last is known
// by the wall clock, which may be set: a step of an hour forward would give up every claim that is
// launching, and one back would give each of them another hour. So the wall clock counts once, when
// this process first sees the condition, and the monotonic clock from then on.
type countdowns struct {
	mu   sync.Mutex
	ends map[string]map[string]countdown // by the claim's name and the condition's type
}

type countdown struct {
	changed time.Time // when the condition changed
	ends    time.Time
}

// left is how long remains, of the time that the condition may take, since it changed; never more than
// that time. wall and monotonic are the present by the two clocks.
func (c *countdowns) left(claim, condition string, changed time.Time, takes time.Duration, wall, monotonic time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	x, seen := c.ends[claim][condition]
	if !seen || !x.changed.Equal(changed) {
		x = countdown{changed, monotonic.Add(min(takes, takes-wall.Sub(changed)))}
		if c.ends == nil {
			c.ends = map[string]map[string]countdown{}
		}
		if c.ends[claim] == nil {
			c.ends[claim] = map[string]countdown{}
		}
		c.ends[claim][condition] = x
	}
	return x.ends.Sub(monotonic)
}

// forget ends the countdowns of a claim.
func (c *countdowns) forget(claim string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.ends, claim)
}
