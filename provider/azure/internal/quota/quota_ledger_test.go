// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/karve-dev/karve/engine/offering"
)

// The sums of a ledger are those of its entries, whatever was entered and forgotten since they
// were computed.
func TestLedgerKeepsItsSums(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		l, now := newLedger(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		readAt := now
		for range 200 {
			now = now.Add(time.Second)
			vm := fmt.Sprint(r.IntN(10))
			uses := []offering.QuotaUse{{Quota: fmt.Sprint(r.IntN(3)), Amount: 1 + r.Int64N(5)}}
			switch r.IntN(6) {
			case 0, 1:
				l.reserve(vm, uses, nil, readAt)
			case 2:
				l.recordCreated(vm, now.Add(-time.Duration(r.IntN(5))*time.Second))
			case 3:
				l.cancel(vm)
			case 4:
				l.credit(vm, uses, now)
			case 5:
				readAt = now
			}
			if got, want := l.outstanding(readAt), sumsOf(l, readAt); !sameSums(got, want) {
				t.Fatalf("the sums are %v, want %v (seed %d)", got, want, seed)
			}
		}
	}
}

func sumsOf(l *usageLedger, readAt time.Time) map[string]int64 {
	anew := &usageLedger{entries: maps.Clone(l.entries)}
	return anew.outstanding(readAt)
}

// sameSums reports whether sums are equal, ignoring zeros.
func sameSums(a, b map[string]int64) bool {
	for name := range maps.Keys(a) {
		if a[name] != b[name] {
			return false
		}
	}
	return len(b) <= len(a)
}

// Azure frees quota some time after a deletion was requested, and that is found still later. Whenever
// the quota is read, the ledger never finds more than Azure has left.
func TestLedgerNeverFindsMoreThanIsLeft(t *testing.T) {
	const limit = 20
	uses := []offering.QuotaUse{{Quota: "q", Amount: 1}}
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		l, quota, readAt := newLedger(), Usages{"q": {Limit: limit}}, now
		running, freed := map[string]bool{}, map[string]bool{}
		requestedAt := map[string]time.Time{}
		for i := range 300 {
			now = now.Add(time.Second)
			switch vm := fmt.Sprint(i); r.IntN(5) {
			case 0:
				if _, ok := l.reserve(vm, uses, quota, readAt); ok {
					running[vm] = true
					l.recordCreated(vm, now)
				}
			case 1:
				for _, vm := range slices.Sorted(maps.Keys(running)) {
					if requestedAt[vm].IsZero() {
						requestedAt[vm] = now
						break
					}
				}
			case 2:
				for _, vm := range slices.Sorted(maps.Keys(running)) {
					if !requestedAt[vm].IsZero() {
						delete(running, vm)
						freed[vm] = true
						break
					}
				}
			case 3:
				for _, vm := range slices.Sorted(maps.Keys(freed)) {
					delete(freed, vm)
					l.credit(vm, uses, requestedAt[vm])
					break
				}
			case 4:
				quota, readAt = Usages{"q": {Limit: limit, used: int64(len(running))}}, now
			}
			if got, most := l.left([]string{"q"}, quota, readAt)["q"], int64(limit-len(running)); got > most {
				t.Fatalf("step %d: %d are left by the ledger, %d in truth (seed %d)", i, got, most, seed)
			}
		}
	}
}
