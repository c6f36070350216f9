// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// The Kubernetes service's limits, as they are published: so many at once, and
// one more after so long.
func TestThrottlingOfAKS(t *testing.T) {
	const cluster = "/subscriptions/s/resourceGroups/g/providers/Microsoft.ContainerService/managedClusters/c"
	for _, test := range []struct {
		class  class
		method string
		path   string
		burst  int
		next   time.Duration
		alone  bool // whether another resource has a limit of its own
	}{
		{putAKS, http.MethodPut, cluster + "/agentPools/p", 20, time.Minute, true},
		{callAKS, http.MethodPut, cluster + "/agentPools/p/machines/m", 60, time.Second, false},
		{listAKS, http.MethodGet, cluster, 500, time.Second, false},
		{pollAKS, http.MethodGet, cluster, 200, 500 * time.Millisecond, false},
	} {
		inBubble(t, Options{Throttle: true}, func(b *bubble) {
			ask := func(path string) error {
				// Resource Manager's own limits are not what this is about.
				delete(b.Capacity.throttles.buckets, "arm/"+armKind(test.method))
				delete(b.Capacity.throttles.buckets, "tenant/"+armKind(test.method))
				req := &request{http: httptest.NewRequest(test.method, path, nil)}
				return b.Capacity.throttles.admit(req, &route{class: test.class}, http.Header{})
			}
			for i := range test.burst {
				if err := ask(test.path); err != nil {
					t.Fatalf("%s %s: request %d: %v", test.method, test.path, i+1, err)
				}
			}
			var refused *Error
			if err := ask(test.path); !errors.As(err, &refused) || refused.Status != http.StatusTooManyRequests || refused.header.Get("Retry-After") == "" {
				t.Errorf("%s %s: request %d: %v, want 429 with Retry-After", test.method, test.path, test.burst+1, err)
			}
			if err := ask(test.path + "2"); (err == nil) != test.alone {
				t.Errorf("%s %s2: %v", test.method, test.path, err)
			}
			time.Sleep(test.next)
			if err := ask(test.path); err != nil {
				t.Errorf("%s %s after %v: %v", test.method, test.path, test.next, err)
			}
		})
	}
}

// A limit that a fault halved stays so, however many buckets are swept away around it.
func TestHalvedLimitsAreKept(t *testing.T) {
	now := time.Now()
	th := throttles{buckets: map[string]*bucket{}, halved: 1, clock: newClock(1, newChance(1))}
	th.newBucket("halved", limit{perMinute: 2, burst: 4}, now)
	for i := range bucketsKept {
		th.buckets[fmt.Sprint(i)] = &bucket{limit: limit{perMinute: 2, burst: 4}, tokens: 4, last: now}
	}
	th.prune(now)
	if b := th.newBucket("halved", limit{perMinute: 2, burst: 4}, now); len(th.buckets) != 1 || b.limit != (limit{perMinute: 1, burst: 2}) {
		t.Errorf("%d buckets are left, the halved one: %+v", len(th.buckets), b)
	}
}
