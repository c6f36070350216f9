// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure"
)

// Rule REQUEST-1: a thousand virtual machines are requested as fast as Azure's limits allow, in
// some 80 seconds, with one write each, and no request is refused.
//
// Rule VM-4: what follows, until they are deleted, costs only a few more requests.
func TestThousandVMsAreNotThrottled(t *testing.T) {
	const n = 1000
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, azureemulator.Options{
			SystemNodes: -1, TimeScale: 1, Throttle: true, Seed: 1, SubnetPrefix: "10.0.0.0/16",
			Quota: map[string]int{"standardDSv5Family": 100_000}, RegionalCores: 100_000,
		}).small()
		r.options.ARMShare = 1
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
		t.Logf("%v for %d VMs, %d calls, %d reads of the list, %d reads in all", took, n, calls.Load(), ledger.ByOperation["VirtualMachines.List"], ledger.Reads)
		if took > 82*time.Second {
			t.Errorf("%d VMs were asked for in %v, want 80s", n, took)
		}
		if writes := ledger.ByOperation["VirtualMachines.CreateOrUpdate"]; writes != n || ledger.Throttled != 0 {
			t.Errorf("%d writes, %d requests throttled; want %d and none", writes, ledger.Throttled, n)
		}
		if m := p.RequestStats(); m.VMsCreated != n {
			t.Errorf("%d VMs are counted, want %d", m.VMsCreated, n)
		}
		_, all := r.eachComesAndGoes(t, p, n)
		cost(t, all, n)
	})
}

// eachComesAndGoes launches virtual machines until they run, and deletes them. It returns the
// requests when all ran, and in total.
func (r *region) eachComesAndGoes(t *testing.T, p *azure.Provider, n int) (up, all azureemulator.Ledger) {
	t.Helper()
	ids, start := make([]string, n), time.Now()
	r.each(t, n, func(i int) (err error) {
		ids[i], err = r.up(t, p, claim(fmt.Sprint("web-", i), onDemand("Standard_D2s_v5", "eastus-1")))
		return err
	})
	up = r.Ledger()
	t.Logf("%v later all run: %v", time.Since(start), up.ByOperation)
	start = time.Now()
	r.each(t, n, func(i int) error { return r.down(t, p, ids[i]) })
	all = r.Ledger()
	t.Logf("%v for their end: %v", time.Since(start), all.ByOperation)
	if left := append(r.residue(t), r.pooled()...); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	return up, all
}

// cost limits the requests per node, from launch to deletion, to what a large cluster can
// afford.
func cost(t *testing.T, ledger azureemulator.Ledger, n int) {
	t.Helper()
	deletes := ledger.ByOperation["VirtualMachines.Delete"]
	writes, reads := float64(ledger.Writes-deletes)/float64(n), float64(ledger.Reads)/float64(n)
	t.Logf("%.2f writes, %.2f deletes and %.2f reads for each: %v", writes, float64(deletes)/float64(n), reads, ledger.ByOperation)
	if writes > 1.2 || deletes > n || reads > 3 || ledger.Throttled > 0 {
		t.Errorf("%.2f writes and %.2f reads for each VM, %d requests throttled", writes, reads, ledger.Throttled)
	}
}

// A replacement for an interrupted node is launched before nodes for pending pods.
//
// Rule REQUEST-5.
func TestUrgentClaimsLaunchFirst(t *testing.T) {
	const n = 300
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, azureemulator.Options{
			SystemNodes: -1, TimeScale: 1, Throttle: true, Seed: 1, SubnetPrefix: "10.0.0.0/16",
			Quota: map[string]int{"standardDSv5Family": 100_000}, RegionalCores: 100_000,
		}).small()
		p := r.provider(t)
		if _, err := p.Catalog(t.Context(), "default"); err != nil {
			t.Fatal(err)
		}
		launchedAt := make([]time.Time, n+1)
		r.each(t, n+1, func(i int) error {
			c := claim(fmt.Sprint("web-", i), onDemand("Standard_D2s_v5", "eastus-1"))
			if i == n { // requested last, while the others wait
				time.Sleep(5 * time.Second)
				c.Urgent = true
			}
			for {
				in, err := p.Launch(t.Context(), c)
				if err != nil || in.ProviderID != "" {
					launchedAt[i] = time.Now()
					return err
				}
				time.Sleep(in.RetryAfter)
			}
		})
		later := 0
		for _, at := range launchedAt[:n] {
			if at.After(launchedAt[n]) {
				later++
			}
		}
		if later < 120 {
			t.Errorf("%d of %d that came before it were launched after it", later, n)
		}
	})
}
