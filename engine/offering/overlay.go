// SPDX-License-Identifier: Apache-2.0

package offering

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/quantity"
)

// Overlay corrects what a provider says about some offerings: their price, and resources of
// their instance types that the cloud does not list.
type Overlay struct {
	Name   string
	Weight int32
	// Rules select offerings by the labels that their nodes may have; no rules select all.
	Rules []constraint.Rule
	// Price replaces or changes the price of the instance, to which the extras are added again;
	// the zero PriceChange leaves it unchanged.
	Price PriceChange
	// Capacity adds or replaces resources of every type with a selected offering. It must not
	// name cpu, memory, ephemeral-storage or pods, which every instance type has.
	Capacity quantity.Amounts
}

// PriceChange is a new price or a correction of the provider's price. The zero PriceChange
// changes nothing.
type PriceChange struct {
	kind   changeKind
	amount float64 // USD per hour, or percent
}

type changeKind int

const (
	unchanged changeKind = iota
	replaced
	added
	scaled
)

// maxPrice is the largest price, the same bound as in USDPerHour.
const maxPrice Price = 1e18

// ParsePrice parses a price that replaces the provider's, in USD per hour: 0.35.
func ParsePrice(text string) (PriceChange, error) {
	usd, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return PriceChange{}, fmt.Errorf("price %q is not a number", text)
	}
	if _, err := USDPerHour(usd); err != nil {
		return PriceChange{}, err
	}
	return PriceChange{kind: replaced, amount: usd}, nil
}

// ParseAdjustment parses a signed correction, in USD per hour or in percent:
// +0.05, -0.1, +10%, -15%.
func ParseAdjustment(text string) (PriceChange, error) {
	if !strings.HasPrefix(text, "+") && !strings.HasPrefix(text, "-") {
		return PriceChange{}, fmt.Errorf("price adjustment %q has no sign: write +0.05, -0.1, +10%% or -15%%", text)
	}
	number, percent := strings.CutSuffix(text, "%")
	amount, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsNaN(amount) || math.IsInf(amount, 0) {
		return PriceChange{}, fmt.Errorf("price adjustment %q is not a number: write +0.05, -0.1, +10%% or -15%%", text)
	}
	if percent && amount < -100 {
		return PriceChange{}, fmt.Errorf("price adjustment %q takes off more than the whole price", text)
	}
	if percent {
		return PriceChange{kind: scaled, amount: amount}, nil
	}
	return PriceChange{kind: added, amount: amount}, nil
}

// Of is the price after the change: never negative, never above a billion dollars.
func (c PriceChange) Of(p Price) Price {
	var usd float64
	switch c.kind {
	case unchanged:
		return p
	case replaced:
		usd = c.amount
	case added:
		usd = p.USD() + c.amount
	case scaled:
		usd = p.USD() * (1 + c.amount/100)
	}
	return Price(math.Round(min(max(usd, 0)*1e9, float64(maxPrice))))
}

// OverlayProblem says which overlay is left out of all catalogs, and why.
type OverlayProblem struct {
	Overlay string
	// Conflict is set when the overlay changes a price or resource that another overlay of equal
	// weight changes. Otherwise the overlay is invalid, or has a requirement that is not
	// supported.
	Conflict bool
	Detail   string
}

// Overlaid is one catalog after overlays.
type Overlaid struct {
	// Types is the slice passed in when no overlay changed any type. Otherwise unchanged types
	// and offerings are shared with that slice.
	Types []InstanceType
	// PriceChanged names the types with an offering whose price changed; CapacityChanged names
	// those whose capacity changed.
	PriceChanged, CapacityChanged map[string]bool
}

// ApplyOverlays applies overlays to catalogs, which stay unchanged. The overlay with the
// largest weight decides about an offering's price and about each resource of a type. Among
// equal weights, the name that comes last in the alphabet goes first: this is Karpenter's
// order and the reverse of what its documentation says. Two overlays of equal weight that
// change the same price or resource conflict: the second one is left out of all catalogs.
func ApplyOverlays(catalogs [][]InstanceType, overlays []Overlay) ([]Overlaid, []OverlayProblem) {
	catalogsSoFar := make([]*overlaidCatalog, len(catalogs))
	for i, types := range catalogs {
		catalogsSoFar[i] = newOverlaidCatalog(types)
	}
	var faults []OverlayProblem
	for _, o := range inOrder(overlays) {
		if fault := o.lay(catalogsSoFar); fault.Detail != "" {
			faults = append(faults, fault)
		}
	}
	out := make([]Overlaid, len(catalogsSoFar))
	for i, d := range catalogsSoFar {
		out[i] = d.finish()
	}
	return out, faults
}

func inOrder(overlays []Overlay) []Overlay {
	out := slices.Clone(overlays)
	slices.SortStableFunc(out, func(a, b Overlay) int {
		return cmp.Or(-cmp.Compare(a.Weight, b.Weight), -cmp.Compare(a.Name, b.Name))
	})
	return out
}

// lay applies one overlay to all catalogs or, when there is a problem, to none.
func (o *Overlay) lay(catalogsSoFar []*overlaidCatalog) OverlayProblem {
	set, err := o.read(catalogsSoFar)
	if err != nil {
		return OverlayProblem{Overlay: o.Name, Detail: err.Error()}
	}
	selected := make([][]place, len(catalogsSoFar))
	for i, d := range catalogsSoFar {
		selected[i] = d.choose(set)
		if other := d.contested(o, selected[i]); other != "" {
			return OverlayProblem{Overlay: o.Name, Conflict: true, Detail: fmt.Sprintf("conflict with another overlay: %s has the same weight and changes the same", other)}
		}
	}
	for i, d := range catalogsSoFar {
		d.take(o, selected[i])
	}
	return OverlayProblem{}
}

// read checks the overlay and compiles its rules.
func (o *Overlay) read(catalogsSoFar []*overlaidCatalog) (constraint.Set, error) {
	for _, name := range o.Capacity.Names() {
		switch name {
		case quantity.NameCPU, quantity.NameMemory, quantity.NameStorage, quantity.NamePods:
			return nil, fmt.Errorf("capacity of %s cannot be changed: each node has its own", name)
		}
		if o.Capacity[name] < 0 {
			return nil, fmt.Errorf("capacity of %s is negative", name)
		}
	}
	set, err := constraint.NewInterner().Set(o.Rules)
	if err != nil {
		return nil, err
	}
	anyTypes := slices.ContainsFunc(catalogsSoFar, func(d *overlaidCatalog) bool { return len(d.types) > 0 })
	for _, q := range set {
		known := slices.ContainsFunc(catalogsSoFar, func(d *overlaidCatalog) bool { return anyHasLabel(d.types, q.Key.Name) })
		if !known && !q.AdmitsAbsent() && anyTypes {
			return nil, fmt.Errorf("a requirement on %s is not supported: no offering has that label, and overlays for single NodePools or their labels are not supported", q.Key.Name)
		}
	}
	return set, nil
}

// overlaidCatalog is a catalog to which overlays are being applied.
type overlaidCatalog struct {
	types  []InstanceType
	prices map[place]appliedPrice             // by offering
	extras map[int]map[string]appliedCapacity // by type, then resource
}

// place is an offering: the index of the type, and of the offering in it.
type place struct{ t, o int }

// appliedPrice is the change that applies, and the last overlay that changes the same, with its
// weight, which is the lowest so far.
type appliedPrice struct {
	change PriceChange
	lowest int32
	last   string
}

type appliedCapacity struct {
	amount int64
	lowest int32
	last   string
}

func newOverlaidCatalog(types []InstanceType) *overlaidCatalog {
	return &overlaidCatalog{types: types, prices: map[place]appliedPrice{}, extras: map[int]map[string]appliedCapacity{}}
}

func (d *overlaidCatalog) choose(set constraint.Set) []place {
	var out []place
	for t := range d.types {
		for o := range d.types[t].Offerings {
			if meetsAll(&d.types[t], &d.types[t].Offerings[o], set) {
				out = append(out, place{t, o})
			}
		}
	}
	return out
}

// contested names the overlay of equal weight that changes the same price or resource; empty
// when there is none.
func (d *overlaidCatalog) contested(o *Overlay, at []place) string {
	for _, p := range at {
		if had, ok := d.prices[p]; ok && o.Price.kind != unchanged && had.lowest == o.Weight {
			return had.last
		}
		for name := range o.Capacity {
			if had, ok := d.extras[p.t][name]; ok && had.lowest == o.Weight {
				return had.last
			}
		}
	}
	return ""
}

func (d *overlaidCatalog) take(o *Overlay, at []place) {
	for _, p := range at {
		if o.Price.kind != unchanged {
			had, ok := d.prices[p]
			if !ok {
				had.change = o.Price
			}
			had.lowest, had.last = o.Weight, o.Name
			d.prices[p] = had
		}
		for name, amount := range o.Capacity {
			if d.extras[p.t] == nil {
				d.extras[p.t] = map[string]appliedCapacity{}
			}
			had, ok := d.extras[p.t][name]
			if !ok {
				had.amount = amount
			}
			had.lowest, had.last = o.Weight, o.Name
			d.extras[p.t][name] = had
		}
	}
}

// finish copies only what the overlays changed.
func (d *overlaidCatalog) finish() Overlaid {
	out := Overlaid{Types: d.types}
	if len(d.prices) == 0 && len(d.extras) == 0 {
		return out
	}
	out.Types, out.PriceChanged, out.CapacityChanged = slices.Clone(d.types), map[string]bool{}, map[string]bool{}
	for p, c := range d.prices {
		t := &out.Types[p.t]
		if &t.Offerings[0] == &d.types[p.t].Offerings[0] { // not cloned yet
			out.PriceChanged[t.Name] = true
			t.Offerings = slices.Clone(t.Offerings)
		}
		o := &t.Offerings[p.o]
		o.Price = c.change.Of(o.Price - o.Extras).Add(o.Extras)
	}
	for i, extra := range d.extras {
		t := &out.Types[i]
		out.CapacityChanged[t.Name] = true
		t.Capacity = maps.Clone(t.Capacity)
		if t.Capacity == nil {
			t.Capacity = quantity.Amounts{}
		}
		for name, c := range extra {
			t.Capacity[name] = c.amount
		}
	}
	return out
}
