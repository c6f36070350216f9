package offer

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/quantity"
)

// Label keys that Type.Name and Offer's fields stand for.
const (
	labelType         = "node.kubernetes.io/instance-type"
	labelZone         = "topology.kubernetes.io/zone"
	labelCapacityType = "karpenter.sh/capacity-type"
)

// Row is one offer of one type, as a Catalog lists it.
type Row struct {
	Offer
	Type int // index into Catalog.Types
}

// Catalog is everything on sale for one node class: rows sorted by price, and
// for each label value the set of rows that can carry it. It is immutable but
// for Measure.
type Catalog struct {
	Source []Type // as handed to Compile
	Types  []Type // sorted by name, without duplicates
	Rows   []Row  // sorted by price, fallbacks last, then type, capacity type and zone
	// Capacity and Room are what a node of Types[i] reports and what its pods can
	// use, before DaemonSets. See Measure.
	Capacity, Room []quantity.Vector
	// Fallbacks are the rows that are offers of last resort.
	Fallbacks bitset.Set

	columns  map[*constraint.Key]*column
	several  bitset.Set // rows with several values for some label
	measured int        // version of the positions when the vectors were made
}

// column indexes the rows by the values of one label.
type column struct {
	ids     []int // values some row carries, ascending
	rows    map[int]bitset.Set
	missing bitset.Set // rows that do not carry the label at all
	several bitset.Set // rows for which the launch may choose between values
}

// belowNothing is why an offer with a negative price is not bought: nobody pays
// to be rid of a machine, so the number is wrong.
const belowNothing = "its price is negative, so it is not known"

// Compile sorts and indexes what a provider has on sale. Types of equal name
// keep the first; the input is not changed.
func Compile(space *constraint.Space, resources *quantity.Space, types []Type) *Catalog {
	c := &Catalog{Source: types, Types: slices.Clone(types), columns: map[*constraint.Key]*column{}}
	slices.SortStableFunc(c.Types, func(a, b Type) int { return cmp.Compare(a.Name, b.Name) })
	c.Types = slices.CompactFunc(c.Types, func(a, b Type) bool { return a.Name == b.Name })
	for i, t := range c.Types {
		for _, o := range t.Offers {
			if o.Price < 0 && o.Unavailable == "" {
				o.Unavailable = belowNothing
			}
			c.Rows = append(c.Rows, Row{Offer: o, Type: i})
		}
	}
	// Types are sorted, so their index stands for the name.
	slices.SortStableFunc(c.Rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Price, b.Price), compareBool(a.Fallback, b.Fallback), cmp.Compare(a.Type, b.Type),
			cmp.Compare(a.CapacityType, b.CapacityType), cmp.Compare(a.Zone, b.Zone))
	})
	for i := range c.Rows {
		c.indexRow(space, i)
		if c.Rows[i].Fallback {
			c.Fallbacks.Put(i)
		}
	}
	for _, col := range c.columns {
		col.finish(len(c.Rows))
	}
	c.Measure(resources)
	return c
}

// Measure brings the vectors up to date with positions that have moved since. Only
// the owner of the World may call it.
func (c *Catalog) Measure(resources *quantity.Space) {
	if c.measured == resources.Version() {
		return
	}
	c.measured = resources.Version()
	c.Capacity = make([]quantity.Vector, len(c.Types))
	c.Room = make([]quantity.Vector, len(c.Types))
	for i, t := range c.Types {
		c.Capacity[i] = resources.Offered(t.Capacity)
		c.Room[i] = resources.Offered(t.Capacity.Sub(t.Overhead))
	}
}

// Choice names row i.
func (c *Catalog) Choice(i int) Choice {
	r := c.Rows[i]
	return Choice{Type: c.Types[r.Type].Name, Zone: r.Zone, CapacityType: r.CapacityType, Price: r.Price, Fallback: r.Fallback}
}

// Type returns the type of that name; nil when there is none.
func (c *Catalog) Type(name string) *Type {
	i, ok := slices.BinarySearchFunc(c.Types, name, func(t Type, name string) int { return cmp.Compare(t.Name, name) })
	if !ok {
		return nil
	}
	return &c.Types[i]
}

// Draws is what buying the choice takes out of the region's budgets.
func (t *Type) Draws(c Choice) []Draw {
	if o := t.Offer(c); o != nil {
		return o.Draws
	}
	return nil
}

// Offer is the offer of the type that the choice names; nil when there is none.
func (t *Type) Offer(c Choice) *Offer {
	for i := range t.Offers {
		if o := &t.Offers[i]; o.Zone == c.Zone && o.CapacityType == c.CapacityType && o.Price == c.Price {
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

func (c *Catalog) indexRow(space *constraint.Space, i int) {
	for key, values := range rowLabels(c.Types[c.Rows[i].Type], c.Rows[i].Offer) {
		k := space.Key(key)
		col := c.columns[k]
		if col == nil {
			col = &column{rows: map[int]bitset.Set{}}
			c.columns[k] = col
		}
		if len(values) > 1 {
			col.several.Put(i)
			c.several.Put(i)
		}
		for _, v := range values {
			id := k.ID(v)
			set := col.rows[id]
			set.Put(i)
			col.rows[id] = set
		}
	}
}

func (col *column) finish(rows int) {
	var carried bitset.Set
	for id, set := range col.rows {
		col.ids = append(col.ids, id)
		carried.Merge(set)
	}
	slices.Sort(col.ids)
	col.missing = bitset.Upto(rows).Minus(carried)
}

// rowLabels are the values a node bought by this offer may carry. An offer's
// labels take the place of its type's.
func rowLabels(t Type, o Offer) func(yield func(string, []string) bool) {
	return func(yield func(string, []string) bool) {
		if !yield(labelType, []string{t.Name}) || !yield(labelZone, []string{o.Zone}) ||
			!yield(labelCapacityType, []string{o.CapacityType}) {
			return
		}
		for k, v := range o.Labels {
			if !yield(k, v) {
				return
			}
		}
		for k, v := range t.Labels {
			if _, ok := o.Labels[k]; ok || k == labelType || k == labelZone || k == labelCapacityType {
				continue
			}
			if !yield(k, v) {
				return
			}
		}
	}
}

// Carries reports whether any row carries the label.
func (c *Catalog) Carries(k *constraint.Key) bool { return c.columns[k] != nil }

// Keys are the labels that some row carries, in no order.
func (c *Catalog) Keys() iter.Seq[*constraint.Key] { return maps.Keys(c.columns) }

// IDs lists the values of the label that some row may carry, ascending.
func (c *Catalog) IDs(k *constraint.Key) []int { return c.columns[k].ids }

// Values lists, for each row, the values of the label that it may carry, ascending.
func (c *Catalog) Values(k *constraint.Key) [][]int {
	out := make([][]int, len(c.Rows))
	for _, id := range c.IDs(k) {
		for row := range c.columns[k].rows[id].All() {
			out[row] = append(out[row], id)
		}
	}
	return out
}

// Admitted returns the rows whose label can meet q.
func (c *Catalog) Admitted(q constraint.Requirement) bitset.Set {
	col := c.columns[q.Key]
	if col == nil {
		if q.AdmitsAbsent() {
			return bitset.Upto(len(c.Rows))
		}
		return nil
	}
	out := make(bitset.Set, (len(c.Rows)+63)/64)
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

// Chooses reports whether the launch of row i may choose between values of k.
func (c *Catalog) Chooses(i int, k *constraint.Key) bool {
	col := c.columns[k]
	return col != nil && col.several.Has(i)
}

// Several reports whether the launch of row i may choose between values of any label.
func (c *Catalog) Several(i int) bool { return c.several.Has(i) }

// Meets reports whether row i can meet q.
func (c *Catalog) Meets(i int, q constraint.Requirement) bool {
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

// Acceptable lists, cheapest first, the available offers that meet a claim's
// rules and hold its requests. A rule on a label that no type carries is the
// pool's own (a template label) and does not filter. It serves a launch that
// finds only the claim, for instance after a restart, and is asked for every
// claim on its way whenever the catalog changes: it indexes nothing.
func Acceptable(types []Type, rules []constraint.Rule, requests quantity.Amounts) ([]Choice, error) {
	set, err := constraint.NewSpace().Set(rules)
	if err != nil {
		return nil, err
	}
	set = slices.DeleteFunc(set, func(q constraint.Requirement) bool { return !carried(types, q.Key.Name) })
	var out []Choice
	seen := make(map[string]bool, len(types))
	for i := range types {
		t := &types[i]
		if seen[t.Name] || !t.holds(requests) {
			continue
		}
		seen[t.Name] = true
		for j := range t.Offers {
			if o := &t.Offers[j]; o.Unavailable == "" && o.Price >= 0 && meetsAll(t, o, set) {
				out = append(out, Choice{Type: t.Name, Zone: o.Zone, CapacityType: o.CapacityType, Price: o.Price, Fallback: o.Fallback})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Choice) int {
		return cmp.Or(cmp.Compare(a.Price, b.Price), compareBool(a.Fallback, b.Fallback), cmp.Compare(a.Type, b.Type),
			cmp.Compare(a.CapacityType, b.CapacityType), cmp.Compare(a.Zone, b.Zone))
	})
	return out, nil
}

// carried reports whether any offer of any type carries the label.
func carried(types []Type, key string) bool {
	switch key {
	case labelType, labelZone, labelCapacityType:
		return true
	}
	for i := range types {
		if len(types[i].Offers) > 0 && len(types[i].Labels[key]) > 0 {
			return true
		}
		for j := range types[i].Offers {
			if len(types[i].Offers[j].Labels[key]) > 0 {
				return true
			}
		}
	}
	return false
}

func meetsAll(t *Type, o *Offer, set constraint.Set) bool {
	for _, q := range set {
		if !meets(t, o, q) {
			return false
		}
	}
	return true
}

// meets reports whether a node bought by the offer can meet q.
func meets(t *Type, o *Offer, q constraint.Requirement) bool {
	switch q.Key.Name {
	case labelType:
		return q.Admits(q.Key.ID(t.Name))
	case labelZone:
		return q.Admits(q.Key.ID(o.Zone))
	case labelCapacityType:
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

func (t *Type) holds(requests quantity.Amounts) bool {
	for name, n := range requests {
		if n > t.Capacity[name]-t.Overhead[name] {
			return false
		}
	}
	return true
}
