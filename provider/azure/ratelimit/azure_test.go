// SPDX-License-Identifier: Apache-2.0

package ratelimit_test

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"github.com/karve-dev/karve/provider/azure/ratelimit"
)

// azureLimits is Azure's side: token buckets by class of request, with the answers that report
// them. It is written from the published tables, not from the package under test. Answers take
// as long as over a network.
type azureLimits struct {
	mu       sync.Mutex
	random   *rand.Rand
	slowest  time.Duration // of the way there, and of the way back
	silent   bool          // reports nothing of what is left
	buckets  map[string]*azureBucket
	requests int
	refused  []time.Time
	served   []string
	lowest   map[string]float64
}

type azureBucket struct {
	tokens, burst, perSecond float64
	last                     time.Time
}

func newAzureLimits(seed uint64) *azureLimits {
	a := &azureLimits{random: rand.New(rand.NewPCG(seed, 1)), slowest: 75 * time.Millisecond, buckets: map[string]*azureBucket{}, lowest: map[string]float64{}}
	a.limit("reads", 250, 25)
	a.limit("writes", 200, 10)
	a.limit("deletes", 200, 10)
	a.limit("PutVM", 1500, 500.0/60)
	a.limit("ListVM", 900, 5)
	return a
}

func (a *azureLimits) limit(name string, burst, perSecond float64) {
	a.buckets[name] = &azureBucket{tokens: burst, burst: burst, perSecond: perSecond, last: time.Now()}
	a.lowest[name] = burst
}

// cut makes a limit smaller from now on.
func (a *azureLimits) cut(name string, burst, perSecond float64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.take(name, 0)
	b := a.buckets[name]
	b.burst, b.perSecond, b.tokens = burst, perSecond, math.Min(b.tokens, burst)
}

func (a *azureLimits) take(name string, n float64) (left float64, wait time.Duration) {
	b, now := a.buckets[name], time.Now()
	b.tokens = math.Min(b.burst, b.tokens+b.perSecond*now.Sub(b.last).Seconds())
	b.last = now
	if b.tokens < n {
		return math.Floor(b.tokens), 1 + time.Duration((n-b.tokens)/b.perSecond*float64(time.Second))
	}
	b.tokens -= n
	a.lowest[name] = math.Min(a.lowest[name], b.tokens)
	return math.Floor(b.tokens), 0
}

// others takes n tokens if they are there, as another client would.
func (a *azureLimits) others(name string, n float64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, wait := a.take(name, n)
	return wait == 0
}

// asked returns how many requests have come.
func (a *azureLimits) asked() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.requests
}

func (a *azureLimits) way() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Duration(a.random.Int64N(int64(a.slowest) + 1))
}

// Do implements policy.Transporter.
func (a *azureLimits) Do(req *http.Request) (*http.Response, error) {
	time.Sleep(a.way())
	defer time.Sleep(a.way())
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests++
	arm := map[string]string{"GET": "reads", "DELETE": "deletes"}[req.Method]
	if arm == "" {
		arm = "writes"
	}
	header := http.Header{}
	left, wait := a.take(arm, 1)
	tell := func(name, value string) {
		if !a.silent {
			header.Add(name, value)
		}
	}
	tell("X-Ms-Ratelimit-Remaining-Subscription-"+arm, fmt.Sprint(left))
	compute := map[string]string{"PUT": "PutVM"}[req.Method]
	if req.Method == "GET" && strings.HasSuffix(req.URL.Path, "/virtualMachines") {
		compute = "ListVM"
	}
	if wait == 0 && compute != "" {
		left, wait = a.take(compute, 1)
		tell("X-Ms-Ratelimit-Remaining-Resource", fmt.Sprintf("Microsoft.Compute/%sSubscriptionMaximum;%v", compute, left))
	}
	if wait > 0 {
		a.refused = append(a.refused, time.Now())
		header.Set("Retry-After", fmt.Sprint(math.Ceil(wait.Seconds())))
		return answer(req, http.StatusTooManyRequests, header), nil
	}
	a.served = append(a.served, req.Method+" "+req.URL.Path[strings.LastIndex(req.URL.Path, "/")+1:])
	return answer(req, http.StatusOK, header), nil
}

func answer(req *http.Request, status int, header http.Header) *http.Response {
	return &http.Response{StatusCode: status, Header: header, Request: req, Body: io.NopCloser(bytes.NewReader([]byte("{}")))}
}

// client is one karve with a pipeline as the provider builds it.
type client struct {
	*ratelimit.Buckets
	pipeline runtime.Pipeline
}

func newClient(a policy.Transporter, share float64) *client {
	b := ratelimit.New(ratelimit.Options{Share: share})
	return &client{b, runtime.NewPipeline("test", "v0", runtime.PipelineOptions{}, &policy.ClientOptions{
		Transport: a, PerRetryPolicies: []policy.Policy{b.Policy()},
		Retry: policy.RetryOptions{MaxRetries: -1},
	})}
}

const group = "https://arm.example/subscriptions/s/resourceGroups/g/providers/"

func vmURL(name string) string { return group + "Microsoft.Compute/virtualMachines/" + name }

// send makes one request and returns its status.
func (c *client) send(t *testing.T, method, url string) int {
	req, err := runtime.NewRequest(t.Context(), method, url)
	if err != nil {
		t.Error(err)
		return 0
	}
	resp, err := c.pipeline.Do(req)
	if err != nil {
		t.Error(err)
		return 0
	}
	return resp.StatusCode
}

// launch creates a virtual machine as the provider does: with a ticket first, and returning after
// the wait of the ticket.
func (c *client) launch(t *testing.T, name string, p ratelimit.Priority) int {
	for {
		wait := c.Ticket(name, p, ratelimit.ARMWrites, ratelimit.PutVM)
		if wait == 0 {
			return c.send(t, http.MethodPut, vmURL(name))
		}
		time.Sleep(wait)
	}
}
