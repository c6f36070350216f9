// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/karve-dev/karve/azureemulator"
)

// An answer that asks for no requests for a day is not obeyed for that long.
//
// Rule REQUEST-7.
func TestNobodyWaitsForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1, TimeScale: 1, Throttle: true, Seed: 1}).small()
		p := r.provider(t)
		if _, err := p.Catalog(t.Context(), "default"); err != nil {
			t.Fatal(err)
		}
		if err := r.Inject(azureemulator.NamedFault{Name: "TooManyRequestsForADay", Target: "/virtualMachines/[^/]+$"}); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := r.up(t, p, claim("a", onDemand("Standard_D4s_v5", "eastus-1"))); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < 30*time.Minute || took > 35*time.Minute {
			t.Errorf("it ran after %v, want half an hour and what a VM takes", took)
		}
	})
}

// A deletion that does not end is requested again, by another process too.
//
// Rule VM-7.
func TestStuckDeletions(t *testing.T) {
	for name, restarted := range map[string]bool{"by the same process": false, "by another": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1, TimeScale: 1, Seed: 1}).small()
				p := r.provider(t)
				id, err := r.up(t, p, claim("a", onDemand("Standard_D4s_v5", "eastus-1")))
				if err != nil {
					t.Fatal(err)
				}
				if err := r.Inject(azureemulator.NamedFault{Name: "StuckDeleting"}); err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				if err := p.Terminate(t.Context(), id); err != nil {
					t.Fatal(err)
				}
				if restarted {
					p = r.provider(t)
				}
				if err := r.down(t, p, id); err != nil {
					t.Fatal(err)
				}
				took, deletes := time.Since(start), r.Ledger().ByOperation["VirtualMachines.Delete"]
				if took < 10*time.Minute || took > 13*time.Minute || deletes != 2 {
					t.Errorf("it went after %v and %d requests, want ten minutes and two", took, deletes)
				}
				if left := r.residue(t); len(left) > 0 {
					t.Errorf("left behind: %v", left)
				}
			})
		})
	}
}
