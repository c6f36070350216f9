// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider/azure/internal/sku"
)

func TestPricesTakeTheLinuxMeterWhateverTheOrder(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	meter := func(price float64, change func(*priceItem)) priceItem {
		i := priceItem{ArmSKUName: "Standard_D2s_v5", SKUName: "D2s v5", MeterName: "D2s v5", ProductName: "Virtual Machines Dsv5 Series",
			Type: "Consumption", CurrencyCode: "USD", UnitOfMeasure: "1 Hour", RetailPrice: price, EffectiveStartDate: now.AddDate(-1, 0, 0)}
		if change != nil {
			change(&i)
		}
		return i
	}
	items := []priceItem{
		meter(0.096, nil),
		meter(0.188, nil), // a second meter at the Windows price, not named so
		meter(0.019, func(i *priceItem) { i.SKUName += " Spot"; i.MeterName += " Spot" }),
		meter(0.010, func(i *priceItem) { i.SKUName += " Low Priority" }),
		meter(0.001, func(i *priceItem) { i.ProductName += " Windows" }),
		meter(0.002, func(i *priceItem) { i.Type = "Reservation" }),
		meter(0.003, func(i *priceItem) { i.EffectiveStartDate = now.AddDate(0, 1, 0) }),
		meter(0.004, func(i *priceItem) { i.EffectiveEndDate = now.AddDate(0, -1, 0) }),
		meter(0.005, func(i *priceItem) { i.TierMinimumUnits = 100 }),
		meter(0.006, func(i *priceItem) { i.CurrencyCode = "EUR" }),
		meter(0.007, func(i *priceItem) { i.UnitOfMeasure = "1 Month" }),
		meter(0, nil),
		meter(-1, nil),
	}
	wantTable(t, items, now, Table{"Standard_D2s_v5": {OnDemand: 96_000_000, Spot: 19_000_000}})
}

// wantTable reads rows in every rotation of their order.
func wantTable(t *testing.T, items []priceItem, now time.Time, want Table) {
	t.Helper()
	var rows []json.RawMessage
	for _, item := range items {
		row, err := json.Marshal(item)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	for turn := range rows {
		m := newMeters(virtualMachines, "eastus", now)
		m.add(rows[turn:])
		m.add(rows[:turn])
		if diff := cmp.Diff(want, m.table(), cmp.AllowUnexported(Price{})); diff != "" {
			t.Fatalf("in order %d (-want +got):\n%s", turn, diff)
		}
	}
}

// Of several meters the region's primary one counts, of several prices of one meter the one that
// took effect last, and among equals the cheapest.
//
// Rule PRICE-1.
func TestOneMeterCounts(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	row := func(size, id string, usd float64, primary bool, since int) priceItem {
		return priceItem{ArmSKUName: size, ArmRegionName: "EastUS", MeterID: id, RetailPrice: usd, IsPrimaryMeterRegion: primary, EffectiveStartDate: now.AddDate(0, since, 0)}
	}
	elsewhere := row("Standard_D2", "a", 0.001, true, -1)
	elsewhere.ArmRegionName = "westus"
	wantTable(t, []priceItem{
		row("Standard_D2", "a", 0.2, true, -2), row("Standard_D2", "b", 0.1, false, -1), // primary, though dearer and older
		row("Standard_D4", "a", 0.3, true, -9), row("Standard_D4", "a", 0.4, true, -2), row("Standard_D4", "a", 0.1, true, +1), // the latest in force
		row("Standard_D8", "a", 0.9, true, -1), row("Standard_D8", "b", 0.8, true, -3), // two primary meters: one is for Windows and does not say so
		row("Standard_E2", "a", 0.5, false, -1), row("Standard_E2", "b", 0.6, false, -1), // none is primary
		row("Standard_E4", "a", -0.5, true, -1), row("Standard_E4", "b", 0.7, false, -1), // nor is one that says nonsense
		elsewhere,
	}, now, Table{
		"Standard_D2": {OnDemand: 200_000_000}, "Standard_D4": {OnDemand: 400_000_000}, "Standard_D8": {OnDemand: 800_000_000},
		"Standard_E2": {OnDemand: 500_000_000}, "Standard_E4": {OnDemand: 700_000_000},
	})
}

// pages is a price list whose pages a test writes.
type pages map[string]string // by path

func (p pages) Do(req *http.Request) (*http.Response, error) {
	body, ok := p[req.URL.Path]
	status := http.StatusOK
	if !ok {
		status = http.StatusNotFound
	}
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Body: io.NopCloser(strings.NewReader(body)), Request: req}, nil
}

// list writes a page of "size=price" on demand, or "size~price" as spot.
func list(next string, rows ...string) string {
	var items []string
	for _, row := range rows {
		sku, usd, onDemand := strings.Cut(row, "=")
		name := sku
		if !onDemand {
			sku, usd, _ = strings.Cut(row, "~")
			name = sku + " Spot"
		}
		items = append(items, fmt.Sprintf(`{"armSkuName":%q,"skuName":%q,"retailPrice":%s}`, sku, name, usd))
	}
	return fmt.Sprintf(`{"Items":[%s],"NextPageLink":%q}`, strings.Join(items, ","), next)
}

func judged(t *testing.T) *Validator {
	t.Helper()
	v, err := NewValidator("eastus")
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Implausible lists are refused as a whole, and the earlier one is kept.
//
// Rule PRICE-2.
func TestPoisonedLists(t *testing.T) {
	good := []string{"Standard_D2s_v5=0.096", "Standard_D4s_v5=0.192", "Standard_D8s_v5=0.384", "Standard_D4s_v5~0.0406"}
	for name, test := range map[string]struct {
		pages pages
		want  string
	}{
		"not JSON":             {pages{"/": "<html>maintenance</html>"}, "reading a page"},
		"cut off":              {pages{"/": list("", good...)[:80]}, "reading a page"},
		"empty":                {pages{"/": `{"Items":[],"NextPageLink":null}`}, "holds no VM size"},
		"null":                 {pages{"/": `null`}, "holds no VM size"},
		"shrunk":               {pages{"/": list("", good[0])}, "shrank from 3 to 1"},
		"without end":          {pages{"/": list("https://prices/", good...)}, "did not end after"},
		"goes on elsewhere":    {pages{"/": list("https://evil/", good...)}, "at another host"},
		"goes on in the clear": {pages{"/": list("http://prices/2", good...)}, "at another host"},
		"a page is missing":    {pages{"/": list("https://prices:443/2", good...)}, "Not Found"},
		"a thousand times":     {pages{"/": list("", "Standard_D2s_v5=96", "Standard_D4s_v5=192", "Standard_D8s_v5=384")}, "cannot be true, such as Standard_D2s_v5 (on-demand) at 96 USD/h: 0.0960 is used"},
		"in cents of cents":    {pages{"/": list("", "Standard_D2s_v5=0.00000096", "Standard_D4s_v5=0.00000192", "Standard_D8s_v5=0.00000384")}, "cannot be true"},
		"prices are words":     {pages{"/": list("", `Standard_D2s_v5="cheap"`, `Standard_D4s_v5=[]`, `Standard_D8s_v5=1e999`, "Standard_D16s_v5=0.768")}, "cannot be read"},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := &Reader{Transport: pages{"/": list("", good...)}, URL: "https://prices/", Location: "eastus", Now: time.Now, Validator: judged(t)}
			first, err := r.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			r.Transport = test.pages
			if _, err := r.Read(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: %v, want %q", name, err, test.want)
			}
			r.Transport = pages{"/": list("https://prices:443/2", good[:2]...), "/2": list("", good[2:]...)}
			if again, err := r.Read(t.Context()); err != nil || !maps.Equal(first, again) || len(r.Validator.rejected) > 0 {
				t.Errorf("after %s: %v, doubted %v", name, err, r.Validator.rejected)
			}
		})
	}
}

// A single implausible price is replaced by the last known one, also the first time, when only
// the built-in one is known.
//
// Rule PRICE-2.
func TestImplausiblePricesAreReplaced(t *testing.T) {
	fill := []string{"Standard_D8s_v5=0.384", "Standard_D16s_v5=0.768", "Standard_D32s_v5=1.536", "Standard_D48s_v5=2.304"}
	for _, test := range []struct {
		row  string
		used offering.Price // of Standard_D4s_v5 on demand
		told string
	}{
		{"Standard_D4s_v5=0.2", 200_000_000, ""},
		{"Standard_D4s_v5=1.9", 1_900_000_000, ""},
		{"Standard_D4s_v5=192", 192_000_000, "Standard_D4s_v5 (on-demand) at 192 USD/h: 0.1920 is used"},
		{"Standard_D4s_v5=0.000192", 192_000_000, "Standard_D4s_v5 (on-demand) at 0.000192 USD/h: 0.1920 is used"},
		{"Standard_D4s_v5=0", 192_000_000, "Standard_D4s_v5 (on-demand) at 0 USD/h: 0.1920 is used"},
		{"Standard_D4s_v5=-3", 192_000_000, "Standard_D4s_v5 (on-demand) at -3 USD/h: 0.1920 is used"},
		{"Standard_D4s_v99=0", 0, "Standard_D4s_v99 (on-demand) at 0 USD/h: no price is known"},
		{"Standard_D4s_v99=5000", 0, "Standard_D4s_v99 (on-demand) at 5000 USD/h: no price is known"},
	} {
		r := &Reader{Transport: pages{"/": list("", append(fill, test.row)...)}, URL: "https://prices/", Location: "eastus", Now: time.Now, Validator: judged(t)}
		table, err := r.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		told := ""
		for _, d := range r.Validator.rejected {
			told += d.String()
		}
		if got := table["Standard_D4s_v5"].OnDemand; got != test.used || told != test.told {
			t.Errorf("%s: %s is used, told %q; want %s and %q", test.row, got, told, test.used, test.told)
		}
	}
}

// Rule PRICE-3.
func TestSizesWithoutAPriceOnTheList(t *testing.T) {
	known, unknown, alone, old := size("Standard_D2s_v5", "f", 2), size("Standard_D4s_v9", "f", 4), size("Standard_N8_v1", "n", 8), size("Standard_E2_v3", "e", 2)
	known.Size.Family, unknown.Size.Family, alone.Size.Family, alone.GPUs = "D", "D", "N", 2
	v := NewPricer([]*sku.SKU{known, unknown, alone}, Table{known.Name: {OnDemand: 100, Spot: 20}}, Table{known.Name: {OnDemand: 90}, old.Name: {OnDemand: 70, Spot: 30}})
	if p, by := v.Price(known); by != fromList || p.OnDemand != 100 || p.Spot != 20 {
		t.Errorf("on the list: %+v, %v", p, by)
	}
	if p, by := v.Price(old); by != BuiltIn || p.OnDemand != 70 || p.Spot != 30 {
		t.Errorf("built in: %+v, %v", p, by)
	}
	if p, by := v.Price(unknown); by != Estimated || p.OnDemand < 200 || p.Spot != p.OnDemand {
		t.Errorf("unknown: %+v, %v", p, by)
	}
	if p, by := NewPricer([]*sku.SKU{alone}, nil, nil).Price(alone); by != Estimated || p.OnDemand < 2*estimatePerGPU {
		t.Errorf("without any list: %+v, %v", p, by)
	}
}

// Rows that spell a size differently from the list of sizes apply to it all the same.
//
// Rule PRICE-1.
func TestPricesIgnoreCase(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	row := func(size, name string, usd float64) priceItem {
		return priceItem{ArmSKUName: size, SKUName: name, MeterID: name, RetailPrice: usd, EffectiveStartDate: now.AddDate(0, -1, 0)}
	}
	items := []priceItem{row("Standard_D2s_V5", "D2s V5", 0.2), row("Standard_D2s_v5", "D2s v5 Spot", 0.1), row("STANDARD_D4S_V5", "D4s V5", 0.4)}
	table := Table{"Standard_D2s_v5": {OnDemand: 200_000_000, Spot: 100_000_000}, "STANDARD_D4S_V5": {OnDemand: 400_000_000}}
	wantTable(t, items, now, table)
	d4 := &sku.SKU{Name: "Standard_D4s_v5", VCPUs: 4}
	for _, v := range []Pricer{NewPricer([]*sku.SKU{d4}, table, nil), NewPricer([]*sku.SKU{d4}, nil, table)} {
		if p, by := v.Price(d4); p.OnDemand != 400_000_000 || by == Estimated {
			t.Errorf("a price under a name in capitals is not found: %v, %v", p, by)
		}
	}
}

// The list does not have every region, and reading it again at once does not help. For a region
// that it should have, an empty list is refused.
//
// Rule PRICE-3.
func TestRegionThatIsNotOnTheList(t *testing.T) {
	for location, want := range map[string]bool{"chinanorth3": true, "private": true, "eastus": false} {
		v, err := NewValidator(location)
		if err != nil {
			t.Fatal(err)
		}
		_, err = v.accept(newMeters(virtualMachines, location, time.Now()))
		if (err == nil) != want || v.regionUnlisted != want {
			t.Errorf("%s: %v, absent %v", location, err, v.regionUnlisted)
		}
		if _, err := v.accept(newMeters(virtualMachines, location, time.Now())); (err == nil) != want {
			t.Errorf("%s, again: %v", location, err)
		}
	}
	v, err := NewValidator("private")
	if err != nil {
		t.Fatal(err)
	}
	v.accepted = Table{"Standard_D2s_v5": {OnDemand: 1}}
	if _, err := v.accept(newMeters(virtualMachines, "private", time.Now())); err == nil || v.regionUnlisted {
		t.Errorf("a region that was on the list: %v", err)
	}
}

func size(name, family string, vcpus int64) *sku.SKU {
	return &sku.SKU{Name: name, Family: family, VCPUs: vcpus, MemoryMiB: vcpus * 4096}
}
