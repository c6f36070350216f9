// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"math"
	"sync"
	"time"

	"github.com/karve-dev/karve/engine/offering"
)

// ledger records what was launched and deleted since the quota was last read, so that concurrent
// launches do not exceed it.
type ledger struct {
	mu      sync.Mutex
	entries map[string]entry // by virtual machine name
	dirty   bool             // something changed since the last call of active

	// sums adds up the entries that a reading of the quota at time then does not include; nil
	// when it must be computed again.
	sums map[string]int64
	then time.Time
}

// An entry is the quota use of one virtual machine. Until it is settled (Azure has answered) no
// reading of the quota is known to include it.
type entry struct {
	draws   []offering.QuotaUse
	settled time.Time // zero while the request is in flight
	credit  bool      // the virtual machine was deleted
}

func newLedger() *ledger { return &ledger{entries: map[string]entry{}} }

// reserve takes the quota use out of what is left, or returns the name of the quota that is too
// small.
func (l *ledger) reserve(machine string, draws []offering.QuotaUse, quota Usages, taken time.Time) (short string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(machine)
	sums := l.outstanding(taken)
	for _, d := range draws {
		q, known := quota.Of(d.Quota)
		if known && clampQuota(q.Limit)-q.used-sums[d.Quota] < d.Amount {
			return d.Quota, false
		}
	}
	l.enter(machine, entry{draws: draws})
	return "", true
}

// settle records that Azure accepted the creation at the given time.
func (l *ledger) settle(machine string, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, ok := l.entries[machine]; ok {
		e.settled = at
		l.enter(machine, e)
	}
}

// cancel removes the entry of a creation that was refused.
func (l *ledger) cancel(machine string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(machine)
}

// credit frees the quota of a virtual machine at the time it was found to be deleted.
func (l *ledger) credit(machine string, draws []offering.QuotaUse, at time.Time) {
	if len(draws) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, ok := l.entries[machine]; ok && !e.credit {
		l.forget(machine) // created and deleted between two readings
		return
	}
	l.enter(machine, entry{draws: draws, settled: at, credit: true})
}

// left returns what remains of each quota.
func (l *ledger) left(budgets []string, quota Usages, taken time.Time) map[string]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	sums := l.outstanding(taken)
	left := make(map[string]int64, len(budgets))
	for _, name := range budgets {
		if q, ok := quota.Of(name); ok {
			left[name] = max(0, clampQuota(q.Limit)-q.used-sums[name])
		}
	}
	return left
}

// clampQuota keeps "unlimited" (the API reports MaxInt64) away from overflow.
func clampQuota(n int64) int64 { return min(n, math.MaxInt64/4) }

func (l *ledger) enter(machine string, e entry) {
	l.forget(machine)
	l.entries[machine], l.dirty = e, true
	if e.heldBy(l.then) {
		l.sums = nil
	}
	e.addTo(l.sums, 1)
}

func (l *ledger) forget(machine string) {
	if e, ok := l.entries[machine]; ok {
		delete(l.entries, machine)
		e.addTo(l.sums, -1)
	}
}

// heldBy reports whether a reading of the quota at that time includes the entry.
func (e entry) heldBy(taken time.Time) bool { return !e.settled.IsZero() && e.settled.Before(taken) }

// addTo adds the entry n times; sums may be nil.
func (e entry) addTo(sums map[string]int64, n int64) {
	if sums == nil {
		return
	}
	if e.credit {
		n = -n
	}
	for _, d := range e.draws {
		sums[d.Quota] += n * d.Amount
	}
}

// outstanding returns the sums for a reading, and drops the entries that it includes.
func (l *ledger) outstanding(taken time.Time) map[string]int64 {
	if l.sums != nil && l.then.Equal(taken) {
		return l.sums
	}
	l.sums, l.then = map[string]int64{}, taken
	for machine, e := range l.entries {
		if e.heldBy(taken) {
			delete(l.entries, machine)
			continue
		}
		e.addTo(l.sums, 1)
	}
	return l.sums
}

// active reports whether anything changed since its last call, or entries remain.
func (l *ledger) active() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.dirty || len(l.entries) > 0
	l.dirty = false
	return was
}
