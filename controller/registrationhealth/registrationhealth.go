// SPDX-License-Identifier: Apache-2.0

// Package registrationhealth remembers how the last launches of each NodePool ended, which
// its condition NodeRegistrationHealthy shows.
//
// It keeps no state across restarts: the condition itself does, and Resume reads
// it. A nil Ledger remembers nothing; the zero Ledger is empty.
package registrationhealth

import (
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	remembered = 4 // outcomes per pool
	tooMany    = 2 // failures among them
)

// Outcome is how one launch ended.
type Outcome struct {
	Failed bool
	// Reason and Message give the cause of a failure, as a condition does.
	Reason, Message string
}

// Ledger keeps the last outcomes of every pool.
type Ledger struct {
	mu    sync.Mutex
	pools map[types.UID][]Outcome
}

// Record adds an outcome of the pool that owns an object; an object without such an owner is
// ignored.
func (l *Ledger) Record(owners []metav1.OwnerReference, o Outcome) {
	i := slices.IndexFunc(owners, func(r metav1.OwnerReference) bool { return r.Kind == "NodePool" })
	if l == nil || i < 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pools == nil {
		l.pools = map[types.UID][]Outcome{}
	}
	all := append(l.pools[owners[i].UID], o)
	l.pools[owners[i].UID] = all[max(0, len(all)-remembered):]
}

// Forget drops the outcomes of a pool: it or its node class was changed.
func (l *Ledger) Forget(pool types.UID) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pools, pool)
}

// Keep drops the outcomes of all pools except the given ones.
func (l *Ledger) Keep(there map[types.UID]bool) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.pools, func(pool types.UID, _ []Outcome) bool { return !there[pool] })
}

// Resume takes a condition that an earlier process left for as many outcomes as
// made it so, unless something is known already.
func (l *Ledger) Resume(pool types.UID, left metav1.ConditionStatus, o Outcome) {
	if l == nil || left == metav1.ConditionUnknown {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pools[pool]) > 0 {
		return
	}
	if l.pools == nil {
		l.pools = map[types.UID][]Outcome{}
	}
	if left == metav1.ConditionTrue {
		l.pools[pool] = []Outcome{{}}
		return
	}
	o.Failed = true
	l.pools[pool] = slices.Repeat([]Outcome{o}, tooMany)
}

// Status is True after a success, False after two failures among the last four,
// with the latest failure, and Unknown while there are too few outcomes.
func (l *Ledger) Status(pool types.UID) (metav1.ConditionStatus, Outcome) {
	if l == nil {
		return metav1.ConditionUnknown, Outcome{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	failures, latest := 0, Outcome{}
	for _, o := range l.pools[pool] {
		if o.Failed {
			failures, latest = failures+1, o
		}
	}
	switch {
	case failures >= tooMany:
		return metav1.ConditionFalse, latest
	case len(l.pools[pool]) > failures:
		return metav1.ConditionTrue, Outcome{}
	}
	return metav1.ConditionUnknown, Outcome{}
}
