// SPDX-License-Identifier: Apache-2.0

package stock

import (
	"testing"
	"time"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider/azure/internal/armerr"
	"github.com/karve-dev/karve/provider/azure/internal/sku"
)

func testSKU(name, family string, vcpus int64) *sku.SKU {
	return &sku.SKU{Name: name, Family: family, VCPUs: vcpus, MemoryMiB: vcpus * 4096}
}

// Rule LAUNCH-4.
func TestBlocksApplyToOtherOfferings(t *testing.T) {
	d2, d4, d8 := testSKU("Standard_D2s_v5", "dsv5", 2), testSKU("Standard_D4s_v5", "dsv5", 4), testSKU("Standard_D8s_v5", "dsv5", 8)
	e4 := testSKU("Standard_E4s_v5", "esv5", 4)
	type probe struct {
		sku      *sku.SKU
		zone, ct string
		blocked  bool
	}
	const spot, onDemand = offering.Spot, offering.OnDemand
	for _, test := range []struct {
		failure armerr.Failure
		ct      string
		ttl     time.Duration
		probes  []probe
	}{
		{armerr.Failure{Kind: armerr.SpotQuota}, spot, 10 * time.Minute, []probe{{e4, "r-1", spot, true}, {d2, "0", spot, false}, {d8, "0", spot, true}, {d4, "r-1", onDemand, false}}},
		{armerr.Failure{Kind: armerr.FamilyQuota}, onDemand, 10 * time.Minute, []probe{{d2, "r-1", onDemand, false}, {d8, "r-3", onDemand, true}, {e4, "r-1", onDemand, false}, {d4, "r-1", spot, false}}},
		{armerr.Failure{Kind: armerr.FamilyQuota, LimitIsZero: true}, onDemand, time.Hour, []probe{{d2, "0", onDemand, true}, {e4, "r-1", onDemand, false}}},
		{armerr.Failure{Kind: armerr.RegionalQuota}, onDemand, 10 * time.Minute, []probe{{e4, "r-2", onDemand, true}, {d2, "r-1", onDemand, false}, {d8, "r-1", spot, false}}},
		{armerr.Failure{Kind: armerr.VMQuota}, onDemand, 10 * time.Minute, []probe{{e4, "r-2", onDemand, true}, {d2, "r-1", spot, true}}},
		{armerr.Failure{Kind: armerr.SkuNotAvailable}, onDemand, 23 * time.Hour, []probe{{d4, "r-2", onDemand, true}, {d4, "0", onDemand, false}, {d4, "r-1", spot, false}, {d8, "r-1", onDemand, false}}},
		{armerr.Failure{Kind: armerr.SkuNotAvailable}, spot, time.Hour, []probe{{d4, "r-3", spot, true}, {d4, "r-3", onDemand, false}}},
		{armerr.Failure{Kind: armerr.ZonalAllocation}, spot, time.Hour, []probe{{d4, "r-1", onDemand, true}, {d8, "r-1", spot, true}, {d2, "r-1", spot, false}, {d4, "r-2", spot, false}, {e4, "r-1", spot, false}}},
		{armerr.Failure{Kind: armerr.Allocation}, onDemand, time.Hour, []probe{{d4, "r-3", spot, true}, {d4, "0", spot, false}}},
		{armerr.Failure{Kind: armerr.OverconstrainedZonal}, spot, time.Hour, []probe{{d4, "r-1", spot, true}, {d4, "r-1", onDemand, false}, {d4, "r-2", spot, false}}},
		{armerr.Failure{Kind: armerr.Overconstrained}, spot, time.Hour, []probe{{d4, "r-2", spot, true}, {d4, "0", spot, false}}},
		{armerr.Failure{Kind: armerr.SizeNotSupported}, spot, 23 * time.Hour, []probe{{d4, "0", onDemand, true}, {d8, "r-1", spot, false}}},
		{armerr.Failure{Kind: armerr.SpotPrice}, spot, 10 * time.Minute, []probe{{d4, "r-2", spot, true}, {d4, "0", spot, true}, {d4, "r-1", onDemand, false}, {d2, "r-1", spot, false}}},
		{armerr.Failure{Kind: armerr.BootFailed}, spot, 10 * time.Minute, []probe{{d4, "r-1", spot, true}, {d4, "r-1", onDemand, false}}},
		{armerr.Failure{Kind: armerr.SubnetFull}, spot, time.Minute, []probe{{e4, "0", onDemand, true}}},
		{armerr.Failure{Kind: armerr.OtherFailure}, spot, 3 * time.Minute, []probe{{d4, "r-1", spot, true}, {d4, "r-2", spot, false}}},
		{armerr.Failure{Kind: armerr.Throttled}, spot, 0, []probe{{d4, "r-1", spot, false}}},
	} {
		now := time.Unix(0, 0)
		m := NewUnavailableOfferings(func() time.Time { return now })
		m.RecordFailure(test.failure, d4, "r-1", test.ct, Requester{"class", "subnet"})
		learnt := m.current()
		for _, p := range test.probes {
			if _, blocked := m.Blocked(p.sku, p.zone, p.ct, Requester{"class", "subnet"}); blocked != p.blocked {
				t.Errorf("%s (%s): %s in %s (%s) blocked is %v", test.failure.Kind, test.ct, p.sku.Name, p.zone, p.ct, blocked)
			}
		}
		if test.ttl == 0 {
			continue
		}
		now = now.Add(test.ttl - time.Second)
		if m.current() != learnt {
			t.Errorf("%s: forgotten before %v", test.failure.Kind, test.ttl)
		}
		now = now.Add(2 * time.Second)
		if _, blocked := m.Blocked(d8, "r-1", test.ct, Requester{"class", "subnet"}); blocked || m.current() == learnt {
			t.Errorf("%s: not forgotten after %v, or the version says nothing of it", test.failure.Kind, test.ttl)
		}
	}
}

func TestTheWiderBlockIsKept(t *testing.T) {
	m := NewUnavailableOfferings(func() time.Time { return time.Unix(0, 0) })
	small, large := testSKU("a", "f", 2), testSKU("b", "f", 64)
	m.RecordFailure(armerr.Failure{Kind: armerr.FamilyQuota}, small, "0", offering.OnDemand, Requester{})
	m.RecordFailure(armerr.Failure{Kind: armerr.FamilyQuota}, large, "0", offering.OnDemand, Requester{})
	if _, blocked := m.Blocked(small, "0", offering.OnDemand, Requester{}); !blocked {
		t.Error("a refusal of a large size made one of a small size forgotten")
	}
}
