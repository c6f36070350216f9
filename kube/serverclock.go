// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"sync/atomic"
	"time"
)

// ServerClock is the clock of the API server, by which it dates objects. It is known from the dates of
// its answers; nil, and before the first answer, it is taken for this machine's. With clocks that differ
// by hours, each new object would be as old, or younger than now: NodeClaims expired and launches timed
// out as soon as they began.
type ServerClock struct{ ahead atomic.Int64 }

// leastAhead is by how much clocks differ before it counts: the dates of answers are whole seconds, and
// an answer takes time to arrive.
const leastAhead = 10 * time.Second

// Observe records the date of an answer that has just arrived.
func (c *ServerClock) Observe(date time.Time) {
	ahead := time.Until(date)
	if ahead.Abs() < leastAhead {
		ahead = 0
	}
	c.ahead.Store(int64(ahead))
}

func (c *ServerClock) isAhead() time.Duration {
	if c == nil {
		return 0
	}
	return time.Duration(c.ahead.Load())
}

// Now is the time by the API server's clock.
func (c *ServerClock) Now() time.Time { return time.Now().Add(c.isAhead()) }

// Since is how long ago the API server dated something.
func (c *ServerClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// Local is the time of this machine's clock when the API server's was t.
func (c *ServerClock) Local(t time.Time) time.Time { return t.Add(-c.isAhead()) }
