// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"fmt"
	"maps"
	"math/rand/v2"
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
