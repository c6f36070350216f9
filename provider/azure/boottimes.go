// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"slices"
	"sync"
	"time"
)

// bootTimes records how long the last virtual machines took to come up. The zero bootTimes has
// no records.
type bootTimes struct {
	mu   sync.Mutex
	took []time.Duration
	next int // index of the oldest in took
}

const (
	maxBootTimes = 200             // virtual machines that are remembered
	minBootTimes = 20              // with fewer, lateAtFirst applies
	lateAtFirst  = 3 * time.Minute // while too few are known
	lateFactor   = 3               // times the 95th percentile
	lateAtLeast  = 30 * time.Second
)

func (b *bootTimes) record(took time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.took) < maxBootTimes {
		b.took = append(b.took, took)
		return
	}
	b.took[b.next] = took
	b.next = (b.next + 1) % maxBootTimes
}

// lateAfter returns how long a creation may take before the virtual machine is late.
func (b *bootTimes) lateAfter() time.Duration {
	b.mu.Lock()
	took := slices.Clone(b.took)
	b.mu.Unlock()
	if len(took) < minBootTimes {
		return lateAtFirst
	}
	slices.Sort(took)
	return max(lateAtLeast, lateFactor*took[len(took)*95/100])
}
