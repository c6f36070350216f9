// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/provider/azure"
)

// running makes the provider keep its lists of the region fresh as in production, until the test
// ends.
func running(t *testing.T, p *azure.Provider) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
}

// Missing data that launches can do without delays none of them: prices, quota and addresses. The
// catalog reports what is missing, and contains it once it was read.
//
// Rule REQUEST-11.
func TestWhatHangsHoldsNothingUp(t *testing.T) {
	for name, test := range map[string]struct {
		fault azureemulator.NamedFault
		says  string
	}{
		"prices":    {azureemulator.NamedFault{Name: "PricesHang"}, "reading prices"},
		"quota":     {azureemulator.NamedFault{Name: "QuotaHangs"}, "reading quota"},
		"addresses": {azureemulator.NamedFault{Name: "QuotaHangs", Target: "/subnets/[^/]+$"}, "reading addresses of subnet"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1, TimeScale: 1, Seed: 1})
				if name != "prices" {
					r.small() // which has its prices from elsewhere
				}
				test.fault.Times = -1
				if err := r.Inject(test.fault); err != nil {
					t.Fatal(err)
				}
				p := r.provider(t)
				running(t, p)
				for i := range 60 { // half an hour
					start := time.Now()
					s := snapshot(t, p)
					if took, patience := time.Since(start), 5*time.Second; took > patience || i > 0 && took > 0 {
						t.Fatalf("after %d of them, a catalog took %v", i, took)
					}
					if !strings.Contains(s.Problem, test.says) {
						t.Fatalf("the problem does not say %q: %q", test.says, s.Problem)
					}
					if i%20 == 0 && name != "addresses" { // a node needs data about its subnet
						if _, err := r.up(t, p, claim(fmt.Sprint("a", i), onDemand("Standard_D4s_v5", "eastus-1"))); err != nil {
							t.Fatal(err)
						}
					}
					time.Sleep(30 * time.Second)
				}
				r.ClearFaults()
				time.Sleep(6 * time.Minute)                                                                                                // the last that hangs, and a minute
				if s := snapshot(t, p); strings.Contains(s.Problem, "reading "+name) && !strings.Contains(s.Problem, "holds no VM size") { // in the year 2000 the region offers nothing yet
					t.Errorf("it answers again: %s", s.Problem)
				}
			})
		})
	}
}

// A token server that does not answer delays no launch for longer than a moment, is not asked by
// each, and is not missed while the last token is valid.
//
// Rule REQUEST-11.
func TestTokensThatHangHoldNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1, TimeScale: 1, Seed: 1}).small().shared()
		sent := r.record()
		p := r.provider(t)
		hang := func() {
			t.Helper()
			if err := r.Inject(azureemulator.NamedFault{Name: "PricesHang", Target: "/sharedgallery/token$", Times: -1}); err != nil {
				t.Fatal(err)
			}
		}
		hang()
		asked := func() int {
			return sent.times("/sharedgallery/token")
		}
		for i := range 100 {
			start := time.Now()
			_, err := p.Launch(t.Context(), claim("a", onDemand("Standard_D4s_v5", "eastus-1")))
			if err == nil || !strings.Contains(err.Error(), "right to use AKS's shared galleries") {
				t.Fatalf("launched without a token: %v", err)
			}
			if took := time.Since(start); took > 6*time.Second {
				t.Fatalf("launch %d took %v", i, took)
			}
			time.Sleep(time.Second)
		}
		if n := asked(); n == 0 || n > 5 {
			t.Errorf("%d requests in two minutes", n)
		}
		r.ClearFaults()
		time.Sleep(2 * time.Minute)
		if _, err := r.up(t, p, claim("a", onDemand("Standard_D4s_v5", "eastus-1"))); err != nil {
			t.Fatal(err)
		}
		hang()
		time.Sleep(31 * time.Minute) // past the half of its life
		if _, err := r.up(t, p, claim("b", onDemand("Standard_D4s_v5", "eastus-1"))); err != nil {
			t.Errorf("with a token that is good: %v", err)
		}
	})
}

// Missing data about the subnet that a node needs delays a launch for a moment; it fails, and is
// retried. Cached data is used.
//
// Rule REQUEST-11, Rule NETWORK-3.
func TestSubnetThatHangsHoldsNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1, TimeScale: 1, Seed: 1}).small()
		p := r.provider(t)
		hang := func() {
			t.Helper()
			if err := r.Inject(azureemulator.NamedFault{Name: "QuotaHangs", Target: "/subnets/[^/]+$", Times: -1}); err != nil {
				t.Fatal(err)
			}
		}
		hang()
		for i := range 20 {
			start := time.Now()
			_, err := p.Launch(t.Context(), claim("a", onDemand("Standard_D4s_v5", "eastus-1")))
			if err == nil || !strings.Contains(err.Error(), "no answer for 5s") {
				t.Fatalf("launched without knowing the subnet: %v", err)
			}
			// The first waits for the subnet's addresses too.
			if took := time.Since(start); took > 6*time.Second && i > 0 || took > 11*time.Second {
				t.Fatalf("launch %d took %v", i, took)
			}
			time.Sleep(time.Second)
		}
		if reason, detail := p.ClassPause("default"); reason != "" {
			t.Errorf("the class rests: %s: %s", reason, detail)
		}
		r.ClearFaults()
		time.Sleep(6 * time.Minute) // until what hangs has ended
		if _, err := r.up(t, p, claim("a", onDemand("Standard_D4s_v5", "eastus-1"))); err != nil {
			t.Fatal(err)
		}
		hang()
		time.Sleep(25 * time.Hour)
		start := time.Now()
		if _, err := p.Launch(t.Context(), claim("b", onDemand("Standard_D4s_v5", "eastus-1"))); err != nil || time.Since(start) > 25*time.Second {
			t.Errorf("a day later: %v after %v", err, time.Since(start))
		}
		time.Sleep(6 * time.Minute)
	})
}

// While the lists of sizes, prices and quota cannot be read for a day, those of the day before hold:
// nothing leaves the catalog, which says what is missing, and VMs are launched.
//
// Rule REQUEST-11.
func TestListsOfYesterdayHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1, TimeScale: 1, Seed: 1, Sizes: []string{"Standard_D4s_v5", "Standard_E4s_v5"}})
		p := r.provider(t)
		running(t, p)
		if _, err := r.up(t, p, claim("a", onDemand("Standard_D4s_v5", "eastus-1"))); err != nil {
			t.Fatal(err)
		}
		before := snapshot(t, p)
		faults := []string{"SizesUnavailable", "QuotaUnavailable", "PricesUnavailable"}
		for _, name := range faults {
			if err := r.Inject(azureemulator.NamedFault{Name: name, Times: -1}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(25 * time.Hour)
		after := snapshot(t, p)
		if len(before.Types) == 0 || len(after.Types) != len(before.Types) || after.Problem == "" {
			t.Errorf("%d types, and %d a day later: %s", len(before.Types), len(after.Types), after.Problem)
		}
		if _, err := r.up(t, p, claim("b", onDemand("Standard_D4s_v5", "eastus-1"))); err != nil {
			t.Errorf("a day later: %v", err)
		}
		for _, name := range faults {
			if r.Struck()[name] == 0 {
				t.Errorf("%s never struck", name)
			}
		}
	})
}
