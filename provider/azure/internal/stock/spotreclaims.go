// SPDX-License-Identifier: Apache-2.0

package stock

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/karve-dev/karve/engine/offering"
)

// reclaimTTL is how long an offering is placed last after Azure evicted a spot instance of it:
// Azure has little capacity of it.
const reclaimTTL = 10 * time.Minute

// SpotReclaims remembers the spot offerings whose instances Azure took back. They are not
// blocked: when many offerings lose instances at once, launches still need some offering.
type SpotReclaims struct {
	now func() time.Time

	mu    sync.Mutex
	until map[spotOffering]time.Time
}

type spotOffering struct{ size, zone string } // size in lower case

func spotOfferingOf(c offering.Ref) spotOffering {
	return spotOffering{strings.ToLower(c.Type), c.Zone}
}

func NewSpotReclaims(now func() time.Time) *SpotReclaims {
	return &SpotReclaims{now: now, until: map[spotOffering]time.Time{}}
}

func (e *SpotReclaims) Record(c offering.Ref) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.until[spotOfferingOf(c)] = e.now().Add(reclaimTTL)
}

// PutReclaimedLast returns the offerings in their order, with those whose instances were taken
// back recently moved behind all others.
func (e *SpotReclaims) PutReclaimedLast(choices []offering.Ref) []offering.Ref {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	for o, until := range e.until {
		if !until.After(now) {
			delete(e.until, o)
		}
	}
	if len(e.until) == 0 {
		return choices
	}
	others, evicted := make([]offering.Ref, 0, len(choices)), []offering.Ref(nil)
	for _, c := range choices {
		if _, lately := e.until[spotOfferingOf(c)]; lately && c.CapacityType == offering.Spot {
			evicted = append(evicted, c)
			continue
		}
		others = append(others, c)
	}
	return slices.Concat(others, evicted)
}
