// SPDX-License-Identifier: Apache-2.0

package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"github.com/karve-dev/karve/provider/azure/ratelimit"
)

// refusing answers every request with one status and headers.
type refusing struct {
	status int
	header http.Header
	asked  int
}

func (r *refusing) Do(req *http.Request) (*http.Response, error) {
	r.asked++
	return answer(req, r.status, r.header.Clone()), nil
}

// Rule REQUEST-3: a refusal closes the limits it is about for as long as Azure says, and no
// others.
func TestRefusalCloses(t *testing.T) {
	const arm, compute = "X-Ms-Ratelimit-Remaining-Subscription-Writes", "X-Ms-Ratelimit-Remaining-Resource"
	network := group + "Microsoft.Network/networkInterfaces/n"
	for _, test := range []struct {
		name, method, url string
		header            http.Header
		writes, put, same time.Duration // waits of another write, another virtual machine, and the same one again
	}{
		{"Compute, for 17s", "PUT", vmURL("m"), http.Header{compute: {"Microsoft.Compute/PutVMSubscriptionMaximum;0", "Microsoft.Compute/PutVMResource;11"}, arm: {"150"}, "Retry-After": {"17"}}, 0, 17 * time.Second, 17 * time.Second},
		{"one VM", "PUT", vmURL("m"), http.Header{compute: {"Microsoft.Compute/PutVMSubscriptionMaximum;900,Microsoft.Compute/PutVMResource;0"}, "Retry-After": {"15"}}, 0, 0, 15 * time.Second},
		{"Resource Manager", "PUT", vmURL("m"), http.Header{arm: {"0"}, "Retry-After": {"3"}}, 3 * time.Second, 3 * time.Second, 3 * time.Second},
		{"by an older name, for as long as it likes", "PUT", vmURL("m"), http.Header{compute: {"Microsoft.Compute/PutVM30Min;0"}, "Retry-After": {"1200"}}, 0, 20 * time.Minute, 20 * time.Minute},
		{"saying nothing", "PUT", vmURL("m"), http.Header{}, 0, 10 * time.Second, 10 * time.Second},
		{"a service whose limits nobody knows", "PUT", network, http.Header{"Retry-After": {"60"}}, 0, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClient(&refusing{status: 429, header: test.header}, 1)
				c.send(t, test.method, test.url)
				// The first token comes a moment after the limit opens again; that of a virtual
				// VM's own limit, four a minute, later.
				near := func(what string, got, want, moment time.Duration) {
					if want == 0 {
						moment = 0
					}
					if got < want || got > want+moment {
						t.Errorf("%s waits %v, want %v", what, got, want)
					}
				}
				near("another write", c.Ticket("w", ratelimit.Create, ratelimit.ARMWrites), test.writes, time.Second)
				near("another VM", c.Ticket("x", ratelimit.Create, ratelimit.ARMWrites, ratelimit.PutVM), test.put, time.Second)
				near("the same VM", c.Ticket("m", ratelimit.Create, ratelimit.ARMWrites, ratelimit.PutVM), test.same, time.Minute)
				if w := c.Ticket("r", ratelimit.Read, ratelimit.ARMReads); w != 0 {
					t.Errorf("a read waits %v for a refused write", w)
				}
			})
		})
	}
}

// Rule REQUEST-6: a request waits a few seconds for its tokens and no longer; then it is
// answered as Azure would, and not sent.
func TestPolicyHoldsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		azure := newAzureLimits(14)
		c := newClient(azure, 1)
		drain(c.Buckets, ratelimit.ARMWrites)
		start := time.Now()
		if status := c.send(t, http.MethodPatch, vmURL("m")); status != http.StatusOK || time.Since(start) < 90*time.Millisecond {
			t.Errorf("got %d after %v, want 200 after a turn", status, time.Since(start))
		}
		for i := range 80 {
			go c.send(t, http.MethodPatch, vmURL(fmt.Sprint("other", i)))
		}
		synctest.Wait()
		asked, start := azure.asked(), time.Now()
		resp, err := c.do(t.Context(), http.MethodPatch, vmURL("m3"))
		if err != nil || resp.StatusCode != http.StatusTooManyRequests || time.Since(start) > 5*time.Second {
			t.Fatalf("got %v, %v after %v, want 429 soon", resp, err, time.Since(start))
		}
		reported := runtime.NewResponseError(resp)
		if after := ratelimit.RetryAfter(resp.Header); after < 5*time.Second || !strings.Contains(reported.Error(), "Held back by karve") {
			t.Errorf("told to come back after %v: %v", after, reported)
		}
		if azure.asked() != asked {
			t.Error("the request was sent nevertheless")
		}
		held := 0
		for _, n := range c.RequestStats().Counts {
			if n.Outcome == "held" {
				held += int(n.N)
			}
		}
		if held == 0 {
			t.Errorf("no request counts as held: %+v", c.RequestStats().Counts)
		}
		time.Sleep(time.Minute)
	})
}

func TestPolicyHeedsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(newAzureLimits(15), 1)
		drain(c.Buckets, ratelimit.ARMWrites)
		for range 20 {
			go c.send(t, http.MethodPatch, vmURL("other"))
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := c.do(ctx, http.MethodPatch, vmURL("m")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the context's error", err)
		}
		time.Sleep(time.Minute)
	})
}

// karve never waits for a simulated Azure without limits.
func TestNoLimits(t *testing.T) {
	b := ratelimit.New(ratelimit.Options{Pace: math.Inf(1)})
	c := &client{b, runtime.NewPipeline("test", "v0", runtime.PipelineOptions{}, &policy.ClientOptions{
		Transport: &refusing{status: 200}, PerRetryPolicies: []policy.Policy{b.Policy()},
	})}
	for range 2000 {
		if status := c.send(t, http.MethodPut, vmURL("m")); status != http.StatusOK {
			t.Fatalf("status %d", status)
		}
	}
}

func (c *client) do(ctx context.Context, method, url string) (*http.Response, error) {
	req, err := runtime.NewRequest(ctx, method, url)
	if err != nil {
		return nil, err
	}
	return c.pipeline.Do(req)
}
