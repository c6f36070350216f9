// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"sync"
	"time"
)

// cleanupEvery is the interval at which unused state is removed.
const cleanupEvery = time.Minute

// A cleanup removes the state of node classes, subnets and virtual machines that do not exist any
// more. All of it is learned again when it is needed again.
type cleanup struct {
	now    func() time.Time
	remove []func(now time.Time)

	mu   sync.Mutex
	last time.Time
}

// run removes unused state if the last run was long enough ago.
func (c *cleanup) run() {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.last) < cleanupEvery {
		return
	}
	c.last = now
	for _, remove := range c.remove {
		remove(now)
	}
}
