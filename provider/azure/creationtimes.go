// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"slices"
	"sync"
	"time"
)

// creationTimes records how long the last virtual machines took to come up. The zero
// creationTimes has no records.
type creationTimes struct {
	mu   sync.Mutex
	took []time.Duration
	next int // index of the oldest in took
}

const (
	maxCreationTimes = 200             // virtual machines that are remembered
	minCreationTimes = 20              // with fewer, lateAtFirst applies
	lateAtFirst      = 3 * time.Minute // while too few are known
	lateFactor       = 3               // times the 95th percentile
	lateAtLeast      = 30 * time.Second
)

func (b *creationTimes) record(took time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.took) < maxCreationTimes {
		b.took = append(b.took, took)
		return
	}
	b.took[b.next] = took
	b.next = (b.next + 1) % maxCreationTimes
}

// lateAfter returns how long a creation may take before the virtual machine is late.
func (b *creationTimes) lateAfter() time.Duration {
	b.mu.Lock()
	took := slices.Clone(b.took)
	b.mu.Unlock()
	if len(took) < minCreationTimes {
		return lateAtFirst
	}
	slices.Sort(took)
	return max(lateAtLeast, lateFactor*took[len(took)*95/100])
}
