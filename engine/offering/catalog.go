// SPDX-License-Identifier: Apache-2.0

package offering

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/quantity"
)

// Label keys whose values come from InstanceType.Name and the fields of Offering.
const (
	LabelInstanceType = "node.kubernetes.io/instance-type"
	LabelZone         = "topology.kubernetes.io/zone"
	LabelCapacityType = "karpenter.sh/capacity-type"
)

// CatalogOffering is one offering of one type in a Catalog.
type CatalogOffering struct {
	Offering
	Type int // index into Catalog.Types
}

// Catalog is all offerings of one node class, sorted by price, and for each label value the
// set of offerings that can have it. It is immutable except for UpdateVectors.
type Catalog struct {
	Source    []InstanceType    // as handed to Compile
	Types     []InstanceType    // sorted by name, without duplicates
	Offerings []CatalogOffering // sorted by price, fallbacks last, then type, capacity type and zone
	// Capacity and Allocatable are what a node of Types[i] reports and what its pods can use,
	// before DaemonSet overhead. See UpdateVectors.
	Capacity, Allocatable []quantity.Vector
	// Sustained is Allocatable without the cpu that burstable types have for a while only.
	Sustained []quantity.Vector
	// Burstable are the types with a SustainedCPU.
	Burstable bitset.Set
	// Fallbacks are the offerings with Fallback set.
	Fallbacks bitset.Set

	byName         map[string]int     // indexes into Types
	allocatable    []quantity.Amounts // of Types[i]: what its pods can use, as in Allocatable
	columns        map[*constraint.Key]*column
	flexible       bitset.Set // offerings with several values for some label
	vectorsVersion int        // version of the resources' positions that the vectors use
}

// column indexes the offerings by the values of one label.
type column struct {
	ids      []int // values that some offering has, ascending
	rows     map[int]bitset.Set
	missing  bitset.Set // offerings that do not have the label at all
	flexible bitset.Set // offerings whose launch may choose between values
}

// negativePrice is why an offering with a negative price is not launched: the price must be
// wrong.
const negativePrice = "its price is negative, so it is not known"

// Compile sorts and indexes the instance types of a provider. Of types with equal names it
// keeps the first. It does not change the input.
func Compile(interner *constraint.Interner, resources *quantity.Positions, types []InstanceType) *Catalog {
	c := &Catalog{Source: types, Types: slices.Clone(types), byName: make(map[string]int, len(types)), columns: map[*constraint.Key]*column{}}
	slices.SortStableFunc(c.Types, func(a, b InstanceType) int { return cmp.Compare(a.Name, b.Name) })
	c.Types = slices.CompactFunc(c.Types, func(a, b InstanceType) bool { return a.Name == b.Name })
	for i, t := range c.Types {
		c.byName[t.Name] = i
		c.allocatable = append(c.allocatable, t.Capacity.Sub(t.Overhead))
		if t.SustainedCPU > 0 {
			c.Burstable.Put(i)
		}
		for _, o := range t.Offerings {
			if o.Price < 0 && o.Unavailable == "" {
				o.Unavailable = negativePrice
			}
			c.Offerings = append(c.Offerings, CatalogOffering{Offering: o, Type: i})
		}
	}
	// Types are sorted by name, so comparing indices compares names.
	slices.SortStableFunc(c.Offerings, func(a, b CatalogOffering) int {
		return cmp.Or(cmp.Compare(a.Price, b.Price), compareBool(a.Fallback, b.Fallback), cmp.Compare(a.Type, b.Type),
			cmp.Compare(a.CapacityType, b.CapacityType), cmp.Compare(a.Zone, b.Zone))
	})
	for i := range c.Offerings {
		c.indexRow(interner, i)
		if c.Offerings[i].Fallback {
			c.Fallbacks.Put(i)
		}
	}
	for _, col := range c.columns {
		col.complete(len(c.Offerings))
	}
	c.UpdateVectors(resources)
	return c
}

// UpdateVectors brings the vectors up to date after the positions of resources have moved.
// Only the owner of the Snapshot (the Builder) may call it.
func (c *Catalog) UpdateVectors(resources *quantity.Positions) {
	if c.vectorsVersion == resources.Version() {
		return
	}
	c.vectorsVersion = resources.Version()
	c.Capacity = make([]quantity.Vector, len(c.Types))
	c.Allocatable = make([]quantity.Vector, len(c.Types))
	c.Sustained = make([]quantity.Vector, len(c.Types))
	for i, t := range c.Types {
		c.Capacity[i] = resources.CapacityVector(t.Capacity)
		c.Allocatable[i] = resources.CapacityVector(c.allocatable[i])
		c.Sustained[i] = c.Allocatable[i]
		if c.Burstable.Has(i) {
			burst := quantity.Amounts{quantity.NameCPU: t.Capacity[quantity.NameCPU] - t.SustainedCPU}
			c.Sustained[i] = resources.CapacityVector(c.allocatable[i].Sub(burst))
		}
	}
}

// Ref returns the Ref of offering i.
func (c *Catalog) Ref(i int) Ref {
	r := c.Offerings[i]
	return r.Ref(c.Types[r.Type].Name)
}

// InstanceType returns the type of that name; nil when there is none.
func (c *Catalog) InstanceType(name string) *InstanceType {
	i, ok := c.byName[name]
	if !ok {
		return nil
	}
	return &c.Types[i]
}

// NodeSize is the size of a node that may be launched as any of the offerings.
func (c *Catalog) NodeSize(offerings []Ref) NodeSize {
	var size NodeSize
	var seen bitset.Set
	for i := range offerings {
		if at, known := c.byName[offerings[i].Type]; known && !seen.Has(at) {
			seen.Put(at)
			size.include(c.Types[at].Capacity, c.allocatable[at])
		}
	}
	return size
}

// QuotaUses is what a launch of the offering takes of the region's quotas.
func (t *InstanceType) QuotaUses(c Ref) []QuotaUse {
	if o := t.Offering(c); o != nil {
		return o.QuotaUses
	}
	return nil
}

// Offering is the offering of the type that c names; nil when there is none.
func (t *InstanceType) Offering(c Ref) *Offering {
	for i := range t.Offerings {
		if o := &t.Offerings[i]; o.Zone == c.Zone && o.CapacityType == c.CapacityType && o.Price == c.Price {
			return o
		}
	}
	return nil
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func (c *Catalog) indexRow(interner *constraint.Interner, i int) {
	for key, values := range rowLabels(c.Types[c.Offerings[i].Type], c.Offerings[i].Offering) {
		k := interner.Key(key)
		col := c.columns[k]
		if col == nil {
			col = &column{rows: map[int]bitset.Set{}}
			c.columns[k] = col
		}
		if len(values) > 1 {
			col.flexible.Put(i)
			c.flexible.Put(i)
		}
		for _, v := range values {
			id := k.ID(v)
			set := col.rows[id]
			set.Put(i)
			col.rows[id] = set
		}
	}
}

func (col *column) complete(rows int) {
	var carried bitset.Set
	for id, set := range col.rows {
		col.ids = append(col.ids, id)
		carried.Merge(set)
	}
	slices.Sort(col.ids)
	col.missing = bitset.Upto(rows).Minus(carried)
}

// rowLabels are the label values that a node launched from this offering may have. The
// labels of an offering override those of its type.
func rowLabels(t InstanceType, o Offering) func(yield func(string, []string) bool) {
	return func(yield func(string, []string) bool) {
		if !yield(LabelInstanceType, []string{t.Name}) || !yield(LabelZone, []string{o.Zone}) ||
			!yield(LabelCapacityType, []string{o.CapacityType}) {
			return
		}
		for k, v := range o.Labels {
			if !yield(k, v) {
				return
			}
		}
		for k, v := range t.Labels {
			if _, ok := o.Labels[k]; ok || k == LabelInstanceType || k == LabelZone || k == LabelCapacityType {
				continue
			}
			if !yield(k, v) {
				return
			}
		}
	}
}

// HasLabel reports whether any offering has the label.
func (c *Catalog) HasLabel(k *constraint.Key) bool { return c.columns[k] != nil }

// Keys are the labels that some offering has, in no order.
func (c *Catalog) Keys() iter.Seq[*constraint.Key] { return maps.Keys(c.columns) }

// IDs lists the values of the label that some offering may have, ascending.
func (c *Catalog) IDs(k *constraint.Key) []int { return c.columns[k].ids }

// Values lists, for each offering, the values of the label that it may have, ascending.
func (c *Catalog) Values(k *constraint.Key) [][]int {
	out := make([][]int, len(c.Offerings))
	for _, id := range c.IDs(k) {
		for row := range c.columns[k].rows[id].All() {
			out[row] = append(out[row], id)
		}
	}
	return out
}

// Matching returns the offerings whose label can meet q.
func (c *Catalog) Matching(q constraint.Requirement) bitset.Set {
	col := c.columns[q.Key]
	if col == nil {
		if q.AdmitsAbsent() {
			return bitset.Upto(len(c.Offerings))
		}
		return nil
	}
	out := make(bitset.Set, (len(c.Offerings)+63)/64)
	for _, id := range col.ids {
		if q.Admits(id) {
			out.Merge(col.rows[id])
		}
	}
	if q.AdmitsAbsent() {
		out.Merge(col.missing)
	}
	return out
}

// Flexible reports whether the launch of offering i may choose between values of k.
func (c *Catalog) Flexible(i int, k *constraint.Key) bool {
	col := c.columns[k]
	return col != nil && col.flexible.Has(i)
}

// AnyFlexible reports whether the launch of offering i may choose between values of any
// label.
func (c *Catalog) AnyFlexible(i int) bool { return c.flexible.Has(i) }

// Matches reports whether offering i can meet q.
func (c *Catalog) Matches(i int, q constraint.Requirement) bool {
	col := c.columns[q.Key]
	if col == nil || col.missing.Has(i) {
		return q.AdmitsAbsent()
	}
	for _, id := range col.ids {
		if q.Admits(id) && col.rows[id].Has(i) {
			return true
		}
	}
	return false
}

// Compatible lists, cheapest first, the available offerings that meet a claim's rules and
// hold its requests. A rule on a label that no type has is about a label of the pool's
// template and does not filter. Compatible serves launches that have only the NodeClaim to
// go by, for instance after a restart. It is called for every claim in flight whenever the
// catalog changes, so it builds no index.
func Compatible(types []InstanceType, rules []constraint.Rule, requests quantity.Amounts) ([]Ref, error) {
	set, err := constraint.NewInterner().Set(rules)
	if err != nil {
		return nil, err
	}
	set = slices.DeleteFunc(set, func(q constraint.Requirement) bool { return !anyHasLabel(types, q.Key.Name) })
	var out []Ref
	seen := make(map[string]bool, len(types))
	for i := range types {
		t := &types[i]
		if seen[t.Name] || !t.holds(requests) {
			continue
		}
		seen[t.Name] = true
		for j := range t.Offerings {
			if o := &t.Offerings[j]; o.Unavailable == "" && o.Price >= 0 && meetsAll(t, o, set) {
				out = append(out, o.Ref(t.Name))
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Ref) int {
		return cmp.Or(cmp.Compare(a.Price, b.Price), compareBool(a.Fallback, b.Fallback), cmp.Compare(a.Type, b.Type),
			cmp.Compare(a.CapacityType, b.CapacityType), cmp.Compare(a.Zone, b.Zone))
	})
	return out, nil
}

// anyHasLabel reports whether any offering of any type has the label.
func anyHasLabel(types []InstanceType, key string) bool {
	switch key {
	case LabelInstanceType, LabelZone, LabelCapacityType:
		return true
	}
	for i := range types {
		if len(types[i].Offerings) > 0 && len(types[i].Labels[key]) > 0 {
			return true
		}
		for j := range types[i].Offerings {
			if len(types[i].Offerings[j].Labels[key]) > 0 {
				return true
			}
		}
	}
	return false
}

func meetsAll(t *InstanceType, o *Offering, set constraint.Set) bool {
	for _, q := range set {
		if !meets(t, o, q) {
			return false
		}
	}
	return true
}

// meets reports whether a node launched from the offering can meet q.
func meets(t *InstanceType, o *Offering, q constraint.Requirement) bool {
	switch q.Key.Name {
	case LabelInstanceType:
		return q.Admits(q.Key.ID(t.Name))
	case LabelZone:
		return q.Admits(q.Key.ID(o.Zone))
	case LabelCapacityType:
		return q.Admits(q.Key.ID(o.CapacityType))
	}
	values, ok := o.Labels[q.Key.Name]
	if !ok {
		values = t.Labels[q.Key.Name]
	}
	if len(values) == 0 {
		return q.AdmitsAbsent()
	}
	return slices.ContainsFunc(values, func(v string) bool { return q.Admits(q.Key.ID(v)) })
}

func (t *InstanceType) holds(requests quantity.Amounts) bool {
	for name, n := range requests {
		if n > t.Capacity[name]-t.Overhead[name] {
			return false
		}
	}
	return true
}
