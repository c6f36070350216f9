// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/provider"
)

// While one launch reads the list of virtual machines, however long that takes, the others
// return and try again later.
//
// Rule REQUEST-8.
func TestOneLaunchReadsTheListForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1, TimeScale: 1, Seed: 1}).small()
		p := r.provider(t)
		claims := []provider.Claim{claim("a", onDemand("Standard_D4s_v5", "eastus-1")), claim("b", onDemand("Standard_D4s_v5", "eastus-1"))}
		for i, c := range claims {
			in, err := p.Launch(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			claims[i].LaunchState = in.LaunchState
		}
		time.Sleep(5 * time.Second)
		if err := r.Inject(azureemulator.NamedFault{Name: "QuotaHangs", Target: "/virtualMachines$", Times: -1}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		read := make(chan error)
		go func() {
			_, err := p.Launch(ctx, claims[0])
			read <- err
		}()
		synctest.Wait()
		for range 10 {
			start := time.Now()
			in, err := p.Launch(t.Context(), claims[1])
			if took := time.Since(start); err != nil || took > 0 {
				t.Fatalf("it took %v while another read the list (%v)", took, err)
			}
			if in.State != provider.Creating || in.RetryAfter <= 0 || in.RetryAfter > 5*time.Second {
				t.Fatalf("%+v, want to come back soon", in)
			}
			time.Sleep(in.RetryAfter)
		}
		cancel()
		if err := <-read; !errors.Is(err, context.Canceled) {
			t.Errorf("the list ended with %v", err)
		}
		r.ClearFaults()
		for _, c := range claims {
			if _, err := r.up(t, p, c); err != nil {
				t.Error(err)
			}
		}
		r.wantMachines(t, 2)
	})
}

// slowLists makes each list of virtual machines take a while.
type slowLists struct {
	inner policy.Transporter
	takes time.Duration
	lists *atomic.Int64
}

func (s slowLists) Do(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodGet && strings.HasSuffix(req.URL.Path, "/virtualMachines") {
		s.lists.Add(1)
		time.Sleep(s.takes)
	}
	return s.inner.Do(req)
}

// A list that takes longer than its maximum age serves all waiting launches all the same: each
// of many virtual machines is seen to run within a few lists.
//
// Rule REQUEST-8.
func TestSlowListServesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1, TimeScale: 1, Seed: 1}).small()
		var lists atomic.Int64
		options := *r.options.ClientOptions
		options.Transport = slowLists{options.Transport, 12 * time.Second, &lists}
		r.options.ClientOptions = &options
		p := r.provider(t)
		const many = 60
		begun, polls := time.Now(), atomic.Int64{}
		var all sync.WaitGroup
		for i := range many {
			all.Go(func() {
				c := claim(fmt.Sprint("a", i), onDemand("Standard_D4s_v5", "eastus-1"))
				for {
					in, err := p.Launch(t.Context(), c)
					polls.Add(1)
					if err != nil {
						t.Error(err)
						return
					}
					if in.State == provider.Running {
						return
					}
					if in.LaunchState != nil {
						c.LaunchState = in.LaunchState
					}
					time.Sleep(max(in.RetryAfter, 100*time.Millisecond))
				}
			})
		}
		all.Wait()
		if took, n := time.Since(begun), lists.Load(); took > 5*time.Minute || n > 20 || polls.Load() > 100*many {
			t.Errorf("%d VMs run after %v, %d lists and %d launches", many, took, n, polls.Load())
		}
	})
}
