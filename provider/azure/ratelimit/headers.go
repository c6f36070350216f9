// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// defaultRetryAfter is how long a refusal lasts that names no time.
const defaultRetryAfter = 10 * time.Second

// remaining is what an answer reports about one bucket.
type remaining struct {
	class Class
	each  bool // of the single resource
	left  float64
}

// remainingIn parses the headers in which Resource Manager and Compute report what is left.
// Unknown buckets are skipped.
func remainingIn(h http.Header) []remaining {
	var all []remaining
	for name, class := range map[string]Class{"Reads": ARMReads, "Writes": ARMWrites, "Deletes": ARMDeletes} {
		if n, err := strconv.ParseFloat(h.Get("X-Ms-Ratelimit-Remaining-Subscription-"+name), 64); err == nil {
			all = append(all, remaining{class: class, left: n})
		}
	}
	for _, line := range h.Values("X-Ms-Ratelimit-Remaining-Resource") {
		for _, item := range strings.Split(line, ",") {
			if r, ok := remainingOf(item); ok {
				all = append(all, r)
			}
		}
	}
	return all
}

// remainingOf parses an item such as "Microsoft.Compute/PutVMSubscriptionMaximum;1499". Older
// names carry a window instead: "Microsoft.Compute/HighCostGet30Min;12".
func remainingOf(item string) (remaining, bool) {
	name, count, _ := strings.Cut(strings.TrimSpace(item), ";")
	left, err := strconv.ParseFloat(strings.TrimSpace(count), 64)
	name, known := strings.CutPrefix(strings.ToLower(name), "microsoft.compute/")
	if err != nil || !known {
		return remaining{}, false
	}
	name, each := strings.CutSuffix(name, "resource")
	for _, tail := range []string{"subscriptionmaximum", "30min", "3min"} {
		name = strings.TrimSuffix(name, tail)
	}
	class, known := computeNames()[name]
	return remaining{class, each, left}, known
}

func computeNames() map[string]Class {
	return map[string]Class{
		"putvm": PutVM, "updatevm": UpdateVM, "deletevm": DeleteVM,
		"getvm": GetVM, "lowcostget": GetVM, "listvm": ListVM, "highcostget": ListVM,
		"getoperation": GetOperation,
	}
}

// recordAnswer applies what an answer reports about the limits, and counts the answer.
func (b *Buckets) recordAnswer(c call, sent time.Time, resp *http.Response, err error) {
	b.count(c, outcome(resp, err))
	if resp == nil || math.IsInf(b.pace, 1) {
		return
	}
	reported := remainingIn(resp.Header)
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	for _, r := range reported {
		if k := b.bucketFor(r, c, now); k != nil {
			k.lower(r.left, sent, now)
		}
	}
	if resp.StatusCode == http.StatusTooManyRequests {
		b.close(c, reported, RetryAfter(resp.Header), sent, now)
	}
}

func (b *Buckets) bucketFor(r remaining, c call, now time.Time) *bucket {
	if r.each {
		return b.bucketOfEach(r.class, c.key, now)
	}
	return b.bucketOf(r.class, now)
}

// close closes the buckets that a refusal is about: those that it reports as empty, else those
// of the service that refused, which for limits per resource is the bucket of that resource. A
// refusal of a service without known limits closes none, so that no other request waits for it.
func (b *Buckets) close(c call, reported []remaining, after time.Duration, sent, now time.Time) {
	if after <= 0 {
		after = defaultRetryAfter
	}
	empty := slices.DeleteFunc(reported, func(r remaining) bool { return r.left > 0 })
	if len(empty) == 0 && len(c.classes) > 1 {
		empty = append(empty, remaining{class: c.service(), each: limitsOf(c.service()).all == (limit{})})
	}
	for _, r := range empty {
		if k := b.bucketFor(r, c, now); k != nil {
			k.refused(after, sent, now)
		}
	}
}

// MaxRetryAfter is the longest wait that is accepted from Azure: its limits are counted over half
// an hour at most, so a longer one is an error.
const MaxRetryAfter = 30 * time.Minute

// RetryAfter parses the header in its three spellings, up to MaxRetryAfter; zero when there is
// none.
func RetryAfter(h http.Header) time.Duration { return min(retryAfterIn(h), MaxRetryAfter) }

func retryAfterIn(h http.Header) time.Duration {
	for _, name := range []string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		if ms, err := strconv.Atoi(h.Get(name)); err == nil && ms > 0 {
			return time.Duration(ms) * time.Millisecond
		}
	}
	raw := h.Get("Retry-After")
	if s, err := strconv.Atoi(raw); err == nil && s > 0 {
		return time.Duration(s) * time.Second
	}
	if at, err := http.ParseTime(raw); err == nil {
		if sent, err := http.ParseTime(h.Get("Date")); err == nil && at.After(sent) {
			return at.Sub(sent)
		}
	}
	return 0
}
