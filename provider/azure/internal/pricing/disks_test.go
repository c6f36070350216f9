// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karve-dev/karve/engine/offering"
)

// A disk is billed as the smallest tier that holds it.
//
// Rule PRICE-7.
func TestDisksAreBilledByTier(t *testing.T) {
	for _, test := range []struct {
		gib  int64
		want string
	}{{1, "P4"}, {30, "P4"}, {32, "P4"}, {33, "P6"}, {64, "P6"}, {100, "P10"}, {128, "P10"}, {129, "P15"}, {256, "P15"}, {300, "P20"}, {1000, "P30"}, {2048, "P40"}, {99999, "P80"}} {
		if got := TierOf(PremiumSSD, test.gib); got != test.want {
			t.Errorf("%d GiB is billed as %s, want %s", test.gib, got, test.want)
		}
		if got, want := TierOf(StandardHDD, test.gib), strings.Replace(test.want, "P", "S", 1); got != want {
			t.Errorf("%d GiB of HDD is billed as %s, want %s", test.gib, got, want)
		}
	}
	built := Disks{BuiltIn: builtInDisks()}
	if got := built.Price(PremiumSSD, 128); got != 27_000_000 { // 19.71 USD in 730 hours
		t.Errorf("128 GiB cost %s/h", got)
	}
	for _, kind := range []DiskType{PremiumSSD, StandardHDD} {
		last := offering.Price(0)
		for _, tier := range diskTiers {
			p := built.Price(kind, tier.gib)
			if p <= last {
				t.Errorf("%s costs %s/h, a smaller disk %s/h", TierOf(kind, tier.gib), p, last)
			}
			last = p
		}
	}
}

// Only rows of whole, locally redundant disks count, and each price is for a month.
func TestDiskRows(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	row := func(meter, product string, usd float64, change func(*priceItem)) json.RawMessage {
		i := priceItem{ArmSKUName: "Premium_SSD_Managed_Disk_P10", MeterName: meter, ProductName: product, Type: "Consumption", CurrencyCode: "USD",
			UnitOfMeasure: "1/Month", RetailPrice: usd, EffectiveStartDate: now.AddDate(-1, 0, 0)}
		if change != nil {
			change(&i)
		}
		raw, err := json.Marshal(i)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	const premium, standard = "Premium SSD Managed Disks", "Standard HDD Managed Disks"
	m := newMeters(managedDisks, "eastus", now)
	m.add([]json.RawMessage{
		row("P10 LRS Disk", premium, 21.9, nil),
		row("P10 LRS Disk Mount", premium, 1, nil),
		row("P10 ZRS Disk", premium, 29, nil),
		row("P10 LRS Disk", "Premium Page Blob", 2, nil),
		row("P10 LRS Disk", premium, 3, func(i *priceItem) { i.UnitOfMeasure = "1 Hour" }),
		row("P10 LRS Disk", premium, 4, func(i *priceItem) { i.CurrencyCode = "EUR" }),
		row("P10 LRS Disk", premium, 5, func(i *priceItem) { i.Type = "Reservation" }),
		row("S10 LRS Disk", standard, 7.3, func(i *priceItem) { i.ArmSKUName = "" }),
		row("Disk Operations", standard, 0.0005, nil),
	})
	if diff := cmp.Diff(Table{"P10": {OnDemand: 30_000_000}, "S10": {OnDemand: 10_000_000}}, m.table()); diff != "" {
		t.Error(diff)
	}
}

// A list of disks that cannot be true is refused as VM sizes are, and its single prices as well.
//
// Rule PRICE-7.
func TestImplausibleDiskPrices(t *testing.T) {
	page := func(rows ...string) pages {
		var items []string
		for _, r := range rows {
			tier, usd, _ := strings.Cut(r, "=")
			items = append(items, `{"meterName":"`+tier+` LRS Disk","productName":"Premium SSD Managed Disks","unitOfMeasure":"1/Month","retailPrice":`+usd+`}`)
		}
		return pages{"/": `{"Items":[` + strings.Join(items, ",") + `]}`}
	}
	v := NewDiskValidator("eastus")
	r := &Reader{Transport: page("P4=6", "P6=11", "P10=1971000", "P15=40"), URL: "https://prices/", Location: "eastus", Now: time.Now, Validator: v}
	table, err := r.Read(t.Context())
	if err != nil || table["P4"].OnDemand != PerMonth(6) || table["P10"].OnDemand != PerMonth(19.71) {
		t.Errorf("read %v, %v", table, err)
	}
	if got := v.Rejected(); len(got) != 1 || got[0].String() != "P10 (disk) at 2700 USD/h: 0.0270 is used" {
		t.Errorf("rejected %v", got)
	}
	for _, bad := range []pages{page(), page("P4=6000000", "P6=11000000"), page("P4=6")} {
		r.Transport = bad
		if table, err := r.Read(t.Context()); err == nil {
			t.Errorf("%v counts: %v", bad, table)
		}
	}
}
