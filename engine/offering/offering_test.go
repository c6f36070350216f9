// SPDX-License-Identifier: Apache-2.0

package offering_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
)

// TestRotateZones (Rule PLAN-6): the zones of a type rotate, more expensive offerings and
// fallbacks stay behind, and one claim always gets the same order.
func TestRotateZones(t *testing.T) {
	choices := []offering.Ref{
		{Type: "D4", Zone: "1", CapacityType: offering.Spot, Price: 5},
		{Type: "D4", Zone: "2", CapacityType: offering.Spot, Price: 5},
		{Type: "D4", Zone: "3", CapacityType: offering.Spot, Price: 5},
		{Type: "D4", Zone: "0", CapacityType: offering.Spot, Price: 5, Fallback: true},
		{Type: "D8", Zone: "1", CapacityType: offering.Spot, Price: 9},
	}
	first := map[string]int{}
	for i := range 300 {
		key := fmt.Sprintf("claim-%d", i)
		got := offering.RotateZones(choices, key)
		first[got[0].Zone]++
		if diff := cmp.Diff(choices[3:], got[3:]); diff != "" {
			t.Fatalf("%s: the tail moved:\n%s", key, diff)
		}
		if diff := cmp.Diff(got, offering.RotateZones(choices, key)); diff != "" {
			t.Fatalf("%s: asked twice, two orders:\n%s", key, diff)
		}
	}
	for _, zone := range []string{"1", "2", "3"} {
		if first[zone] < 60 {
			t.Errorf("zone %s comes first for %d of 300 claims", zone, first[zone])
		}
	}
}

func TestCompatible(t *testing.T) {
	d4 := offering.InstanceType{
		Name: "D4", Labels: map[string][]string{"arch": {"amd64"}},
		Capacity: quantity.Amounts{"cpu": 4000, "memory": 16 << 30}, Overhead: quantity.Amounts{"cpu": 140},
		Offerings: []offering.Offering{
			{Zone: "0", CapacityType: offering.OnDemand, Price: 20, Fallback: true},
			{Zone: "1", CapacityType: offering.OnDemand, Price: 20},
			{Zone: "2", CapacityType: offering.Spot, Price: 5, Unavailable: "out of stock"},
		},
	}
	d8 := d4
	d8.Name, d8.Capacity, d8.Offerings = "D8", quantity.Amounts{"cpu": 8000, "memory": 32 << 30}, []offering.Offering{{Zone: "1", CapacityType: offering.OnDemand, Price: 40}}
	types := []offering.InstanceType{d8, d4}
	rules := []constraint.Rule{
		{Key: "arch", Operator: constraint.In, Values: []string{"amd64"}},
		{Key: "team", Operator: constraint.In, Values: []string{"blue"}}, // the pool's own label
	}
	for _, tc := range []struct {
		name  string
		rules []constraint.Rule
		cpu   int64
		want  []offering.Ref
	}{
		{"cheapest first, fallback behind", rules, 3000, []offering.Ref{
			{Type: "D4", Zone: "1", CapacityType: offering.OnDemand, Price: 20},
			{Type: "D4", Zone: "0", CapacityType: offering.OnDemand, Price: 20, Fallback: true},
			{Type: "D8", Zone: "1", CapacityType: offering.OnDemand, Price: 40},
		}},
		{"overhead counts", rules, 3900, []offering.Ref{{Type: "D8", Zone: "1", CapacityType: offering.OnDemand, Price: 40}}},
		{"nothing", []constraint.Rule{{Key: "arch", Operator: constraint.NotIn, Values: []string{"amd64"}}}, 1, nil},
	} {
		got, err := offering.Compatible(types, tc.rules, quantity.Amounts{"cpu": tc.cpu})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s:\n%s", tc.name, diff)
		}
	}
	if _, err := offering.Compatible(types, []constraint.Rule{{Key: "arch", Operator: "Near"}}, nil); err == nil {
		t.Error("an unknown operator is accepted")
	}
}

// TestCompatibleEqualsCatalog: Compatible returns the same offerings as a compiled Catalog,
// without compiling one.
func TestCompatibleEqualsCatalog(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 3))
		types, rules := randomTypes(r), randomRules(r)
		requests := quantity.Amounts{"cpu": int64(r.IntN(6000))}
		want, err := byCatalog(types, rules, requests)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		got, err := offering.Compatible(types, rules, requests)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Fatalf("seed %d: %v, %v:\n%s", seed, rules, err, diff)
		}
	}
}

func byCatalog(types []offering.InstanceType, rules []constraint.Rule, requests quantity.Amounts) ([]offering.Ref, error) {
	interner, resources := constraint.NewInterner(), quantity.NewPositions()
	for name := range requests {
		resources.AddRequest(name, 1)
	}
	for _, t := range types {
		resources.AddOffers(quantity.Catalogs, t.Capacity, 1)
	}
	resources.AssignPositions()
	asked := resources.RequestVector(requests)
	set, err := interner.Set(rules)
	c := offering.Compile(interner, resources, types)
	var out []offering.Ref
	for i, row := range c.Offerings {
		fits := row.Unavailable == "" && c.Allocatable[row.Type].Holds(&asked)
		for _, q := range set {
			fits = fits && (!c.HasLabel(q.Key) || c.Matches(i, q))
		}
		if fits {
			out = append(out, c.Ref(i))
		}
	}
	return out, err
}

func randomTypes(r *rand.Rand) []offering.InstanceType {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	var types []offering.InstanceType
	for i := range 1 + r.IntN(12) {
		t := offering.InstanceType{Name: fmt.Sprint("T", i), Labels: map[string][]string{"arch": {pick("amd64", "arm64")}},
			Capacity: quantity.Amounts{"cpu": int64(r.IntN(9000))}, Overhead: quantity.Amounts{"cpu": 100}}
		if r.IntN(3) == 0 {
			t.Labels["disk"] = []string{"fast", "slow"}
		}
		for range r.IntN(4) {
			o := offering.Offering{Zone: pick("0", "1", "2"), CapacityType: pick(offering.Spot, offering.OnDemand), Price: offering.Price(r.IntN(4)), Fallback: r.IntN(4) == 0}
			if r.IntN(5) == 0 {
				o.Unavailable = "out of stock"
			}
			if r.IntN(3) == 0 {
				o.Labels = map[string][]string{"version": {pick("3", "4", "x")}}
			}
			t.Offerings = append(t.Offerings, o)
		}
		types = append(types, t)
	}
	return types
}

func randomRules(r *rand.Rand) []constraint.Rule {
	all := []constraint.Rule{
		{Key: "arch", Operator: constraint.In, Values: []string{"amd64"}},
		{Key: "disk", Operator: constraint.NotIn, Values: []string{"slow"}},
		{Key: "disk", Operator: constraint.Exists},
		{Key: "version", Operator: constraint.Gt, Values: []string{"3"}},
		{Key: "version", Operator: constraint.DoesNotExist},
		{Key: "topology.kubernetes.io/zone", Operator: constraint.In, Values: []string{"1", "2"}},
		{Key: "karpenter.sh/capacity-type", Operator: constraint.NotIn, Values: []string{offering.Spot}},
		{Key: "team", Operator: constraint.In, Values: []string{"blue"}},
	}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:r.IntN(4)]
}

func TestPrices(t *testing.T) {
	for _, bad := range []float64{-1, 2e9, math.NaN(), math.Inf(1)} {
		if _, err := offering.USDPerHour(bad); err == nil {
			t.Errorf("%v is accepted as a price", bad)
		}
	}
	if p, err := offering.USDPerHour(0.192); err != nil || p.String() != "0.1920" || p.USD() != 0.192 {
		t.Errorf("0.192 becomes %s, %v", p, err)
	}
}
