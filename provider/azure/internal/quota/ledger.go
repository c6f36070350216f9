// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"math"
	"sync"
	"time"

	"github.com/karve-dev/karve/engine/offering"
)

// A usageLedger records what was launched and deleted since the quota was last read, so that
// concurrent launches do not exceed it.
type usageLedger struct {
	mu      sync.Mutex
	entries map[string]entry // by handle of the virtual machine
	changed bool             // something changed since the last call of changedSinceLastCall

	// sums adds up the entries that a reading of the quota at sumsReadAt does not include; nil when
	// it must be computed again.
	sums       map[string]int64
	sumsReadAt time.Time
}

// An entry is the quota use of one virtual machine that is created, or was deleted. Until Azure has
// answered, no reading of the quota is known to include a creation. A deletion frees the quota some
// time after it is requested: a reading that begins later may include it.
type entry struct {
	uses []offering.QuotaUse
	// at is when Azure answered a creation, zero while the request is in flight; or when a deletion
	// was requested.
	at       time.Time
	isCredit bool // the virtual machine was deleted
}

func newLedger() *usageLedger { return &usageLedger{entries: map[string]entry{}} }

// reserve takes the quota use out of what is left, or returns the name of the quota that is too
// small.
func (l *usageLedger) reserve(vm string, uses []offering.QuotaUse, quota Usages, readAt time.Time) (exceeded string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(vm)
	sums := l.outstanding(readAt)
	for _, d := range uses {
		q, known := quota.Of(d.Quota)
		if known && clampQuota(q.Limit)-q.used-sums[d.Quota] < d.Amount {
			return d.Quota, false
		}
	}
	l.add(vm, entry{uses: uses})
	return "", true
}

// recordCreated records that Azure accepted the creation at the given time.
func (l *usageLedger) recordCreated(vm string, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, ok := l.entries[vm]; ok {
		e.at = at
		l.add(vm, e)
	}
}

// cancel removes the entry of a creation that was refused.
func (l *usageLedger) cancel(vm string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(vm)
}

// credit frees the quota of a virtual machine that is deleted, as was requested at the given time.
func (l *usageLedger) credit(vm string, uses []offering.QuotaUse, requestedAt time.Time) {
	if len(uses) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, ok := l.entries[vm]; ok && !e.isCredit {
		l.remove(vm) // created and deleted between two readings
		return
	}
	l.add(vm, entry{uses: uses, at: requestedAt, isCredit: true})
}

// left returns what remains of each quota.
func (l *usageLedger) left(quotas []string, quota Usages, readAt time.Time) map[string]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	sums := l.outstanding(readAt)
	left := make(map[string]int64, len(quotas))
	for _, name := range quotas {
		if q, ok := quota.Of(name); ok {
			left[name] = max(0, clampQuota(q.Limit)-q.used-sums[name])
		}
	}
	return left
}

// clampQuota keeps "unlimited" (the API reports MaxInt64) away from overflow.
func clampQuota(n int64) int64 { return min(n, math.MaxInt64/4) }

func (l *usageLedger) add(vm string, e entry) {
	l.remove(vm)
	l.entries[vm], l.changed = e, true
	if e.includedIn(l.sumsReadAt) {
		l.sums = nil
	}
	e.addTo(l.sums, 1)
}

func (l *usageLedger) remove(vm string) {
	if e, ok := l.entries[vm]; ok {
		delete(l.entries, vm)
		e.addTo(l.sums, -1)
	}
}

// includedIn reports whether a reading of the quota that began at that time includes the entry. One
// that may include a deletion counts as one that does: quota that is counted as free twice would be
// exceeded.
func (e entry) includedIn(readAt time.Time) bool {
	if e.isCredit {
		return !readAt.Before(e.at)
	}
	return !e.at.IsZero() && e.at.Before(readAt)
}

// addTo adds the entry n times; sums may be nil.
func (e entry) addTo(sums map[string]int64, n int64) {
	if sums == nil {
		return
	}
	if e.isCredit {
		n = -n
	}
	for _, d := range e.uses {
		sums[d.Quota] += n * d.Amount
	}
}

// outstanding returns the sums for a reading, and drops the entries that it includes.
func (l *usageLedger) outstanding(readAt time.Time) map[string]int64 {
	if l.sums != nil && l.sumsReadAt.Equal(readAt) {
		return l.sums
	}
	l.sums, l.sumsReadAt = map[string]int64{}, readAt
	for vm, e := range l.entries {
		if e.includedIn(readAt) {
			delete(l.entries, vm)
			continue
		}
		e.addTo(l.sums, 1)
	}
	return l.sums
}

// changedSinceLastCall reports whether anything changed since its last call, or entries remain.
func (l *usageLedger) changedSinceLastCall() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.changed || len(l.entries) > 0
	l.changed = false
	return was
}
