// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/karve-dev/karve/provider"
)

// tally counts requests and their waits. Buckets.mu guards it.
type tally struct {
	counts map[kind]uint64
	waits  map[Class]provider.RequestWait
}

type kind struct {
	class           Class
	method, outcome string
}

const (
	outcomeOK        = "ok"
	outcomeRefused   = "refused"
	outcomeThrottled = "throttled"
	outcomeFailed    = "failed"
	outcomeLost      = "lost"
	outcomeHeld      = "held"
)

func newTally() tally {
	return tally{counts: map[kind]uint64{}, waits: map[Class]provider.RequestWait{}}
}

func (t *tally) waited(c Class, d time.Duration) {
	if d <= 0 {
		return
	}
	w := t.waits[c]
	w.LimitClass, w.N, w.Total = string(c), w.N+1, w.Total+d
	t.waits[c] = w
}

func (b *Buckets) count(c call, outcome string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tally.counts[kind{c.service(), c.method, outcome}]++
}

func outcome(resp *http.Response, err error) string {
	switch {
	case err != nil || resp == nil:
		return outcomeLost
	case resp.StatusCode == http.StatusTooManyRequests:
		return outcomeThrottled
	case resp.StatusCode >= http.StatusInternalServerError:
		return outcomeFailed
	case resp.StatusCode >= http.StatusBadRequest:
		return outcomeRefused
	}
	return outcomeOK
}

// RequestStats returns the sums since New. Classes without requests are left out.
func (b *Buckets) RequestStats() provider.RequestStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := provider.RequestStats{Left: map[string]float64{}}
	for k, n := range b.tally.counts {
		r.Counts = append(r.Counts, provider.RequestCount{LimitClass: string(k.class), Method: k.method, Outcome: k.outcome, N: n})
	}
	slices.SortFunc(r.Counts, func(x, y provider.RequestCount) int {
		return cmp.Or(cmp.Compare(x.LimitClass, y.LimitClass), cmp.Compare(x.Method, y.Method), cmp.Compare(x.Outcome, y.Outcome))
	})
	for _, w := range b.tally.waits {
		r.Waits = append(r.Waits, w)
	}
	slices.SortFunc(r.Waits, func(x, y provider.RequestWait) int { return cmp.Compare(x.LimitClass, y.LimitClass) })
	now := b.now()
	for c, k := range b.all {
		if k.refill(now); k.closed.After(now) {
			r.Left[string(c)] = 0
			continue
		}
		r.Left[string(c)] = k.tokens
	}
	r.VMsCreated = b.tally.counts[kind{PutVM, http.MethodPut, outcomeOK}]
	return r
}
