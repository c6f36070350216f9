// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/karve-dev/karve/azureemulator"
)

// An instance type that was out of stock for a minute is launched again within the hour that a refusal
// counts, and is not asked for before.
//
// Rule REFUSAL-1.
func TestCapacityThatRecoversIsLaunched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1, TimeScale: 1, Seed: 1}).small()
		p := r.provider(t)
		const wanted = "Standard_D4s_v5"
		if err := r.Inject(azureemulator.NamedFault{Name: "CapacityRecovers", Target: wanted, Times: -1}); err != nil {
			t.Fatal(err)
		}
		start, launched := time.Now(), ""
		for n := 0; launched != wanted; n++ {
			in, err := p.Launch(t.Context(), claim(fmt.Sprint("web-", n), onDemand(wanted, "eastus-1"), onDemand("Standard_E4s_v5", "eastus-1")))
			if launched = in.Type; err != nil || time.Since(start) > 2*time.Hour {
				t.Fatalf("after %v %s is launched: %v", time.Since(start), launched, err)
			}
			time.Sleep(time.Minute)
		}
		if took, struck := time.Since(start), r.Struck()["CapacityRecovers"]; took > 65*time.Minute || struck != 1 {
			t.Errorf("launched after %v, refused %d times", took, struck)
		}
	})
}
