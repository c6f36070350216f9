// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// class groups operations that share request limits.
type class int

const (
	unlimited class = iota
	reads
	writes
	deletes
	readVM
	listVM
	writeVM
	updateVM
	deleteVM
	pollOperation
	// The Kubernetes service's: clusters and agent pools, lists of clusters, its
	// operations, and everything else of it.
	putAKS
	listAKS
	pollAKS
	callAKS
)

// limits is a class's limits: what Resource Manager counts it as, and what
// Compute or the Kubernetes service allows per minute and as a burst, for one
// resource and for all. What the latter's count as depends on the method.
type limits struct {
	arm             string
	compute, aks    string
	resource, total limit
}

// limit is a token bucket's size; the zero limit does not limit.
type limit struct{ perMinute, burst float64 }

// limitsOf is the table of the published limits of Compute and of AKS.
func limitsOf(c class) limits {
	switch c {
	case reads:
		return limits{arm: "reads"}
	case writes:
		return limits{arm: "writes"}
	case deletes:
		return limits{arm: "deletes"}
	case readVM:
		return limits{arm: "reads", compute: "GetVM", resource: limit{12, 36}, total: limit{8000, 24000}}
	case listVM:
		return limits{arm: "reads", compute: "ListVM", total: limit{300, 900}}
	case writeVM:
		return limits{arm: "writes", compute: "PutVM", resource: limit{4, 12}, total: limit{500, 1500}}
	case updateVM:
		return limits{arm: "writes", compute: "UpdateVM", resource: limit{4, 12}, total: limit{500, 1500}}
	case deleteVM:
		return limits{arm: "deletes", compute: "DeleteVM", resource: limit{4, 12}, total: limit{500, 1500}}
	case pollOperation:
		return limits{arm: "reads", compute: "GetOperation", resource: limit{15, 45}, total: limit{5000, 15000}}
	case putAKS:
		return limits{aks: "PUT", resource: limit{1, 20}}
	case listAKS:
		return limits{aks: "LIST", total: limit{60, 500}}
	case pollAKS:
		return limits{aks: "operation status", total: limit{120, 200}}
	case callAKS:
		return limits{aks: "API", total: limit{60, 60}}
	default:
		return limits{}
	}
}

// armKind is what Resource Manager counts a method as.
func armKind(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead:
		return "reads"
	case http.MethodDelete:
		return "deletes"
	}
	return "writes"
}

// armLimit is Resource Manager's bucket per subscription and kind of request.
func armLimit(kind string) limit {
	if kind == "reads" {
		return limit{perMinute: 25 * 60, burst: 250}
	}
	return limit{perMinute: 10 * 60, burst: 200}
}

// throttles holds the buckets. The clock's lock guards them.
type throttles struct {
	enforced bool
	buckets  map[string]*bucket
	// shortages are those under way and those of the past hour; halved is how often all limits were.
	shortages []shortage
	halved    int
	struck    *strikes
	sub       *subscription
	clock     *clock
}

type bucket struct {
	limit  limit
	cut    string // the fault that made it less than Azure's limit; mostly empty
	tokens float64
	last   time.Time
}

// bucketsKept bounds the buckets of single resources: beyond it those that are
// full again, and so no different from new ones, are dropped.
const bucketsKept = 10000

// admit takes a token from each bucket that a request falls under, sets the
// headers with the requests that are left, and refuses when one is empty and limits are
// enforced. Minutes are the emulator's: at TimeScale 0 buckets never empty.
func (t *throttles) admit(req *request, route *route, header http.Header) error {
	p := limitsOf(route.class)
	if p.aks != "" {
		p.arm = armKind(req.http.Method)
	}
	if p.arm == "" {
		return nil
	}
	t.clock.Lock()
	defer t.clock.Unlock()
	left, wait := t.take("arm/"+p.arm, armLimit(p.arm))
	header.Set("x-ms-ratelimit-remaining-subscription-"+p.arm, fmt.Sprint(left))
	header.Set("x-ms-ratelimit-remaining-subscription-global-"+p.arm, fmt.Sprint(left*15))
	if wait > 0 && t.enforced {
		return t.subscriptionThrottled(route.name, wait)
	}
	if _, wait := t.take("tenant/"+p.arm, armLimit(p.arm)); wait > 0 && t.enforced {
		return t.tenantThrottled(wait)
	}
	if p.aks != "" {
		return t.admitAKS(p, req)
	}
	if p.compute == "" {
		return nil
	}
	return t.admitCompute(p, req, header)
}

// admitAKS sets no headers with the requests that are left: the service has none.
func (t *throttles) admitAKS(p limits, req *request) error {
	var wait time.Duration
	if p.total != (limit{}) {
		_, wait = t.take("aks/"+p.aks, p.total)
	}
	if p.resource != (limit{}) {
		_, w := t.take("aks/"+p.aks+strings.ToLower(req.http.URL.Path), p.resource)
		wait = max(wait, w)
	}
	if wait == 0 || !t.enforced {
		return nil
	}
	e := refuse(http.StatusTooManyRequests, "TooManyRequests", "Too many %s requests of the Kubernetes service. Please try again after %d seconds.", p.aks, wholeSeconds(wait))
	e.header = http.Header{}
	setRetryAfter(e.header, wait)
	return e
}

func (t *throttles) admitCompute(p limits, req *request, header http.Header) error {
	var remaining []string
	var wait time.Duration
	exhausted, allowed := "", limit{}
	look := func(name, key string, l limit) {
		left, w := t.take(key, l)
		remaining = append(remaining, fmt.Sprintf("Microsoft.Compute/%s;%d", name, left))
		if w > wait {
			wait, exhausted, allowed = w, name, l
		}
	}
	look(p.compute+"SubscriptionMaximum", "compute/"+p.compute, p.total)
	if p.resource != (limit{}) {
		look(p.compute+"Resource", "compute/"+p.compute+strings.ToLower(req.http.URL.Path), p.resource)
	}
	header["X-Ms-Ratelimit-Remaining-Resource"] = remaining
	header.Set("x-ms-request-charge", "1")
	if wait == 0 || !t.enforced {
		return nil
	}
	return computeThrottled(exhausted, allowed, wait)
}

// take removes a token. It returns how many are left, and how long to wait
// when there was none. Callers hold the lock.
func (t *throttles) take(key string, l limit) (left int, wait time.Duration) {
	now := time.Now()
	b := t.buckets[key]
	if b == nil {
		b = t.newBucket(key, l, now)
	}
	t.refill(key, b, now)
	if b.tokens >= 1 {
		b.tokens--
		return int(b.tokens), 0
	}
	wait = t.clock.scaled(time.Duration((1 - b.tokens) / b.limit.perMinute * float64(time.Minute)))
	short := t.shortageOf(key, now)
	switch {
	case short != nil:
		wait = short.wait(wait, now)
		t.strike(short.fault)
	case b.cut != "":
		t.strike(b.cut)
	}
	return 0, wait
}

// strike counts a request that a fault has refused.
func (t *throttles) strike(fault string) {
	if t.enforced {
		t.struck.note(fault)
	}
}

// newBucket is one that was not asked before: full, unless limits were cut or others take from it.
func (t *throttles) newBucket(key string, l limit, now time.Time) *bucket {
	b := &bucket{limit: l, tokens: l.burst, last: now}
	for range t.halved {
		b.halve(limitsHalved)
	}
	if short := t.shortageOf(key, now); short != nil {
		b.tokens *= short.left
	}
	t.buckets[key] = b
	t.prune(now)
	return b
}

func (t *throttles) prune(now time.Time) {
	if len(t.buckets) < bucketsKept {
		return
	}
	for key, b := range t.buckets {
		if t.refill(key, b, now); b.tokens >= b.limit.burst {
			delete(t.buckets, key)
		}
	}
}

func (t *throttles) subscriptionThrottled(operation string, wait time.Duration) *Error {
	seconds := wholeSeconds(wait)
	e := refuse(http.StatusTooManyRequests, "SubscriptionRequestsThrottled",
		"Number of requests for subscription '%s' and operation '%s' exceeded the backend storage limit. Please try again after '%d' seconds.", t.sub.id, operation, seconds)
	e.header = http.Header{}
	setRetryAfter(e.header, wait)
	return e
}

// tenantThrottled is of all of a tenant's subscriptions together. They have the limits that
// one has (learn.microsoft.com, "Understand how Azure Resource Manager throttles requests"), and
// no header has what is left of them.
func (t *throttles) tenantThrottled(wait time.Duration) *Error {
	e := refuse(http.StatusTooManyRequests, "TenantRequestsThrottled",
		"Number of requests for tenant '%s' exceeded the limit. Please try again after '%d' seconds.", t.sub.tenant, wholeSeconds(wait))
	e.header = http.Header{}
	setRetryAfter(e.header, wait)
	return e
}

// computeThrottled is Compute's form: flat, and with the code that at status
// 409 would mean an exceeded quota.
func computeThrottled(bucket string, allowed limit, wait time.Duration) *Error {
	e := refuse(http.StatusTooManyRequests, "OperationNotAllowed",
		"The server rejected the request because too many requests have been received for this subscription.")
	e.Flat = true
	e.Details = []ErrorDetail{{
		Code: "TooManyRequests", Target: bucket,
		Message: fmt.Sprintf(`{"operationGroup":%q,"allowedRequestCount":%.0f,"measuredRequestCount":%.0f}`, bucket, allowed.burst, allowed.burst+1),
	}}
	e.header = http.Header{}
	setRetryAfter(e.header, wait)
	return e
}

func wholeSeconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// setEnforced enforces request limits, or stops doing so. Limits are counted
// in either case.
func (t *throttles) setEnforced(enforced bool) {
	t.clock.Lock()
	defer t.clock.Unlock()
	t.enforced = enforced
}
