// SPDX-License-Identifier: Apache-2.0

package memory_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/memory"
	"github.com/karve-dev/karve/provider/providertest"
)

func harness(opts memory.Options, pause func(time.Duration)) providertest.Harness {
	opts.Quota = map[string]int64{"family:small": 1000, "spot": 1000}
	cloud := memory.NewCloud(opts)
	return providertest.Harness{
		Class: "default",
		Open:  func(*testing.T) provider.Provider { return memory.New(cloud) },
		StockOut: func(_ *testing.T, c offering.Ref, late bool) {
			cloud.StartOutage(memory.Outage{Type: c.Type, Zone: c.Zone, CapacityType: c.CapacityType, Late: late})
		},
		Residue: func(*testing.T) []string { return cloud.ProviderIDs() },
		Pause:   pause,
	}
}

func TestProviderLaws(t *testing.T) {
	providertest.Run(t, func(*testing.T) providertest.Harness { return harness(memory.Options{}, nil) })
}

func TestLatencyPassesInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := memory.NewCloud(memory.Options{Create: 30 * time.Second, Delete: 10 * time.Second, Call: 100 * time.Millisecond})
		p := memory.New(cloud)
		claim := provider.Claim{Name: "a", UID: "1", Offerings: []offering.Ref{{Type: "small-2", Zone: "zone-1", CapacityType: offering.Spot}}}
		start := time.Now()
		in, err := p.Launch(t.Context(), claim)
		for err == nil && in.State != provider.Running {
			time.Sleep(in.RetryAfter)
			in, err = p.Launch(t.Context(), claim)
		}
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < 30*time.Second || took > 35*time.Second {
			t.Errorf("the instance ran after %v", took)
		}
		if !cloud.Reclaim(in.ProviderID) {
			t.Error("the instance could not be reclaimed")
		}
		if left := cloud.ProviderIDs(); len(left) > 0 {
			t.Errorf("after reclaim there are %v", left)
		}
	})
}
