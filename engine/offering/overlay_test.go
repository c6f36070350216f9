// SPDX-License-Identifier: Apache-2.0

package offering_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
)

func onSale() []offering.InstanceType {
	sell := func(name string) offering.InstanceType {
		return offering.InstanceType{
			Name: name, Labels: map[string][]string{"family": {name[:1]}}, Capacity: quantity.Amounts{"cpu": 4000},
			Offerings: []offering.Offering{
				{Zone: "1", CapacityType: offering.OnDemand, Price: 1e9},
				{Zone: "1", CapacityType: offering.Spot, Price: 4e8},
			},
		}
	}
	return []offering.InstanceType{sell("D4"), sell("E4")}
}

func price(t *testing.T, text string) offering.PriceChange {
	t.Helper()
	c, err := offering.ParsePrice(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func adjustment(t *testing.T, text string) offering.PriceChange {
	t.Helper()
	c, err := offering.ParseAdjustment(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func in(key, value string) []constraint.Rule {
	return []constraint.Rule{{Key: key, Operator: constraint.In, Values: []string{value}}}
}

func prices(types []offering.InstanceType) map[string][]float64 {
	out := map[string][]float64{}
	for _, t := range types {
		for _, o := range t.Offerings {
			out[t.Name] = append(out[t.Name], o.Price.USD())
		}
	}
	return out
}

func adjust(t *testing.T, types []offering.InstanceType, overlays ...offering.Overlay) (offering.Overlaid, []offering.OverlayProblem) {
	t.Helper()
	out, faults := offering.ApplyOverlays([][]offering.InstanceType{types}, overlays)
	return out[0], faults
}

func TestAdjustPrices(t *testing.T) {
	for _, tc := range []struct {
		name     string
		overlays []offering.Overlay
		want     map[string][]float64
	}{
		{"replaced", []offering.Overlay{{Name: "a", Rules: in("family", "D"), Price: price(t, "2.5")}},
			map[string][]float64{"D4": {2.5, 2.5}, "E4": {1, 0.4}}},
		{"only spot, cheaper by a fifth", []offering.Overlay{{Name: "a", Rules: in("karpenter.sh/capacity-type", "spot"), Price: adjustment(t, "-20%")}},
			map[string][]float64{"D4": {1, 0.32}, "E4": {1, 0.32}}},
		{"never below nothing", []offering.Overlay{{Name: "a", Price: adjustment(t, "-0.5")}},
			map[string][]float64{"D4": {0.5, 0}, "E4": {0.5, 0}}},
		{"the heavier decides", []offering.Overlay{{Name: "a", Weight: 1, Price: price(t, "7")}, {Name: "b", Weight: 5, Rules: in("node.kubernetes.io/instance-type", "E4"), Price: adjustment(t, "+1")}},
			map[string][]float64{"D4": {7, 7}, "E4": {2, 1.4}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			types := onSale()
			got, faults := adjust(t, types, tc.overlays...)
			if diff := cmp.Diff(tc.want, prices(got.Types)); diff != "" || len(faults) > 0 {
				t.Error(diff, faults)
			}
			if diff := cmp.Diff(prices(onSale()), prices(types)); diff != "" {
				t.Error("the provider's own list was changed:", diff)
			}
		})
	}
}

// An overlay changes what the instance costs. What its node costs besides stays, and is part of
// the new price.
//
// Rule OVERLAY-3.
func TestAdjustedPriceKeepsExtras(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change offering.PriceChange
		want   map[string][]float64
	}{
		{"replaced", price(t, "2"), map[string][]float64{"D4": {2.25, 2.25}, "E4": {2.25, 2.25}}},
		{"half", adjustment(t, "-50%"), map[string][]float64{"D4": {0.625, 0.325}, "E4": {0.625, 0.325}}},
		{"never below the extras", adjustment(t, "-5"), map[string][]float64{"D4": {0.25, 0.25}, "E4": {0.25, 0.25}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			types := onSale()
			for i := range types {
				for j := range types[i].Offerings {
					types[i].Offerings[j].Extras = 25e7
					types[i].Offerings[j].Price = []offering.Price{1e9, 4e8}[j]
				}
			}
			got, _ := adjust(t, types, offering.Overlay{Name: "a", Price: tc.change})
			if diff := cmp.Diff(tc.want, prices(got.Types)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestEqualWeightsConflict: equal weights are ordered by name, last first. The second
// overlay that changes the same price is left out everywhere, including offerings that only
// it selects.
func TestEqualWeightsConflict(t *testing.T) {
	got, faults := adjust(t, onSale(),
		offering.Overlay{Name: "alpha", Price: price(t, "1.5")},
		offering.Overlay{Name: "omega", Rules: in("family", "D"), Price: price(t, "3")})
	if diff := cmp.Diff(map[string][]float64{"D4": {3, 3}, "E4": {1, 0.4}}, prices(got.Types)); diff != "" {
		t.Error(diff)
	}
	if len(faults) != 1 || faults[0].Overlay != "alpha" || !faults[0].Conflict {
		t.Errorf("faults %+v", faults)
	}
}

func TestConflictCountsInEveryCatalog(t *testing.T) {
	d, e := onSale()[:1], onSale()[1:]
	out, faults := offering.ApplyOverlays([][]offering.InstanceType{d, e}, []offering.Overlay{
		{Name: "z", Rules: in("family", "D"), Price: price(t, "3")},
		{Name: "y", Price: price(t, "4")}, // conflicts with z in the first catalog
		{Name: "x", Rules: in("family", "E"), Price: price(t, "5")},
	})
	if len(faults) != 1 || faults[0].Overlay != "y" {
		t.Errorf("faults %+v", faults)
	}
	if got := prices(out[1].Types)["E4"][0]; got != 5 {
		t.Errorf("E4 costs %v: y was dropped, so x stands alone there", got)
	}
}

func TestAdjustCapacity(t *testing.T) {
	types := onSale()
	got, faults := adjust(t, types,
		offering.Overlay{Name: "a", Weight: 2, Rules: in("karpenter.sh/capacity-type", "spot"), Capacity: quantity.Amounts{"example.com/fpga": 1}},
		offering.Overlay{Name: "b", Weight: 1, Rules: in("family", "D"), Capacity: quantity.Amounts{"example.com/fpga": 9, "example.com/nic": 2}})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	want := quantity.Amounts{"cpu": 4000, "example.com/fpga": 1, "example.com/nic": 2}
	if diff := cmp.Diff(want, got.Types[0].Capacity); diff != "" {
		t.Error(diff)
	}
	if _, ok := types[0].Capacity["example.com/fpga"]; ok {
		t.Error("the provider's own list was changed")
	}
	if diff := cmp.Diff(map[string]bool{"D4": true, "E4": true}, got.CapacityChanged); diff != "" {
		t.Error(diff)
	}
}

func TestUntouchedIsShared(t *testing.T) {
	types := onSale()
	none, _ := adjust(t, types, offering.Overlay{Name: "a", Rules: in("family", "D")})
	if &none.Types[0] != &types[0] {
		t.Error("a list that nothing touched was copied")
	}
	some, _ := adjust(t, types, offering.Overlay{Name: "a", Rules: in("family", "D"), Price: price(t, "2")})
	if &some.Types[1].Offerings[0] != &types[1].Offerings[0] {
		t.Error("offerings that nothing touched were copied")
	}
}

func TestBadOverlaysAreLeftOut(t *testing.T) {
	for name, o := range map[string]offering.Overlay{
		"memory":   {Capacity: quantity.Amounts{"memory": 1}, Price: price(t, "2")},
		"negative": {Capacity: quantity.Amounts{"example.com/fpga": -1}, Price: price(t, "2")},
		"operator": {Rules: []constraint.Rule{{Key: "family", Operator: "Like"}}, Price: price(t, "2")},
		"nodepool": {Rules: in("karpenter.sh/nodepool", "web"), Price: price(t, "2")},
	} {
		types := onSale()
		o.Name = name
		got, faults := adjust(t, types, o)
		if len(faults) != 1 || faults[0].Overlay != name || faults[0].Conflict || faults[0].Detail == "" {
			t.Errorf("%s: faults %+v", name, faults)
		}
		if &got.Types[0] != &types[0] {
			t.Errorf("%s: applied all the same", name)
		}
	}
	for _, text := range []string{"", "NaN", "-1", "1e400", "2e9", "x"} {
		if c, err := offering.ParsePrice(text); err == nil {
			t.Errorf("price %q was read as %v", text, c)
		}
	}
	for _, text := range []string{"", "1", "+", "+NaN", "-101%", "+1e999", "-x%"} {
		if c, err := offering.ParseAdjustment(text); err == nil {
			t.Errorf("adjustment %q was read as %v", text, c)
		}
	}
	if got := adjustment(t, "+1e300%").Of(1e9).USD(); got != 1e9 {
		t.Errorf("a price of %v", got)
	}
}
