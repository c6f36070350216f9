package azure

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
	want := priceTable{"Standard_D2s_v5": {onDemand: 96_000_000, spot: 19_000_000}}
	for turn := range items {
		table := priceTable{}
		table.add(append(items[turn:len(items):len(items)], items[:turn]...), now)
		if diff := cmp.Diff(want, table, cmp.AllowUnexported(price{})); diff != "" {
			t.Fatalf("in order %d (-want +got):\n%s", turn, diff)
		}
	}
}

func TestGuessIsDearerThanSiblings(t *testing.T) {
	known, unknown, alone := testSKU("Standard_D2s_v5", "f", 2), testSKU("Standard_D4s_v9", "f", 4), testSKU("Standard_N8_v1", "n", 8)
	known.size.Family, unknown.size.Family, alone.size.Family, alone.gpus = "D", "D", "N", 2
	prices := priceTable{known.name: {onDemand: 100, spot: 20}}
	g := newGuesser([]*sku{known, unknown, alone}, prices)
	if p, guessed := g.price(known, prices); guessed || p.onDemand != 100 || p.spot != 20 {
		t.Errorf("known: %+v, %v", p, guessed)
	}
	if p, guessed := g.price(unknown, prices); !guessed || p.onDemand < 200 || p.spot != p.onDemand {
		t.Errorf("unknown: %+v, %v", p, guessed)
	}
	if p, guessed := newGuesser([]*sku{alone}, nil).price(alone, nil); !guessed || p.onDemand < 2*guessPerGPU {
		t.Errorf("without any list: %+v, %v", p, guessed)
	}
}
