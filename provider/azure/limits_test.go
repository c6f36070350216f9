package azure_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/emulator"
)

// Rule 190: a thousand machines are asked for as fast as Azure's limits allow, in
// some 80 seconds, with one write each, and not one request is refused.
func TestThousandMachinesAreNotThrottled(t *testing.T) {
	const n = 1000
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, emulator.Options{
			SystemNodes: -1, TimeScale: 1, Throttle: true, Seed: 1, SubnetPrefix: "10.0.0.0/16",
			Quota: map[string]int{"standardDSv5Family": 100_000}, RegionalCores: 100_000,
		}).small()
		r.options.ARMShare = 1
		r.options.PollEvery = 10 * time.Second // the lists of a thousand machines are most of the work here
		p := r.provider(t)
		if _, err := p.Catalog(t.Context(), "default"); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		var calls atomic.Int64
		r.each(t, n, func(i int) error {
			c := claim(fmt.Sprint("web-", i), onDemand("Standard_D2s_v5", "eastus-1"))
			for {
				in, err := p.Launch(t.Context(), c)
				if calls.Add(1); err != nil || in.ProviderID != "" || in.State == provider.Running {
					return err
				}
				time.Sleep(in.RetryAfter)
			}
		})
		took, ledger := time.Since(start), r.Ledger()
		t.Logf("%v for %d machines, %d calls, %d reads of the list, %d reads in all", took, n, calls.Load(), ledger.ByOperation["VirtualMachines.List"], ledger.Reads)
		if took > 82*time.Second {
			t.Errorf("%d machines were asked for in %v, want 80s", n, took)
		}
		if writes := ledger.ByOperation["VirtualMachines.CreateOrUpdate"]; writes != n || ledger.Throttled != 0 {
			t.Errorf("%d writes, %d requests throttled; want %d and none", writes, ledger.Throttled, n)
		}
		if m := p.Requests(); m.Machines != n {
			t.Errorf("%d machines are counted, want %d", m.Machines, n)
		}
	})
}
