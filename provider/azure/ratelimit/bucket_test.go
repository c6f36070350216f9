// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// Rule REQUEST-4: a caller that has to wait finds its tokens when it returns and not a second
// before, however much was refused. The wait is a minute at most.
func TestWaitIsTrue(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 3))
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		b := newBucket(limit{burst: 300, perMinute: 500}, 0.5, 1, now)
		for range r.IntN(8) {
			sent := now.Add(time.Millisecond)
			now = now.Add(time.Duration(2+r.IntN(40_000)) * time.Millisecond)
			b.refused(time.Duration(r.IntN(30))*time.Second, sent, now)
		}
		b.refused(time.Second, now.Add(-time.Millisecond), now)
		b.othersInReserve = r.IntN(2) == 0
		n := 1 + r.Float64()*(b.capacity-1)
		var all time.Duration
		for b.tokens < n-roundingTolerance {
			told := b.wait(n, false, now)
			if told <= 0 || told > maxTokenWait+b.closed.Sub(now) && told > maxTokenWait {
				t.Fatalf("told to wait %v (seed %d)", told, seed)
			}
			early := *b
			for part := range time.Duration(100) {
				early.refill(now.Add(part * (told - time.Second) / 99))
			}
			if told > time.Second && early.tokens > n {
				t.Fatalf("told to wait %v, a second or more too long (seed %d)", told, seed)
			}
			for _, part := range []time.Duration{told / 7, told / 3, told} { // asked in between, it gains no less
				b.refill(now.Add(part))
			}
			now, all = now.Add(told), all+told
			if told < maxTokenWait && b.tokens < n-roundingTolerance {
				t.Fatalf("%v tokens after the %v it was told, want %v (seed %d)", b.tokens, told, n, seed)
			}
		}
		if all > 20*time.Minute {
			t.Fatalf("it took %v (seed %d)", all, seed)
		}
	}
}

// Rule REQUEST-4: the requests of callers that queue while Azure refuses everything are sent once
// it accepts requests again, and not at the time estimated before.
func TestQueueRecovers(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	b := New(Options{Share: 1, Now: func() time.Time { return now }})
	comes := map[string]time.Time{}
	for i := range 300 {
		comes[fmt.Sprint(i)] = now
	}
	b.mu.Lock()
	for range 6 {
		sent := now.Add(time.Second)
		now = now.Add(10 * time.Second)
		b.bucketOf(PutVM, now).refused(defaultRetryAfter, sent, now)
	}
	b.mu.Unlock()
	begun := now
	for len(comes) > 0 {
		for name, at := range comes {
			if now.Before(at) {
				continue
			}
			wait := b.Ticket(name, Create, ARMWrites, PutVM)
			if wait > maxTokenWait+defaultRetryAfter {
				t.Fatalf("told to wait %v", wait)
			}
			if comes[name] = now.Add(wait); wait == 0 {
				delete(comes, name)
			}
		}
		now = now.Add(100 * time.Millisecond)
	}
	if took := now.Sub(begun); took > 5*time.Minute {
		t.Errorf("300 who waited went in %v, want 5m", took)
	}
}
