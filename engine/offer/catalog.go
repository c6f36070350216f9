package offer

import (
	"cmp"
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

	columns  map[*constraint.Key]*column
	measured int // resources known when the vectors were made
}

// column indexes the rows by the values of one label.
type column struct {
	ids     []int // values some row carries, ascending
	rows    map[int]bitset.Set
	missing bitset.Set // rows that do not carry the label at all
	several bitset.Set // rows for which the launch may choose between values
}

// Compile sorts and indexes what a provider has on sale. Types of equal name
// keep the first; the input is not changed.
func Compile(space *constraint.Space, resources *quantity.Space, types []Type) *Catalog {
	c := &Catalog{Source: types, Types: slices.Clone(types), columns: map[*constraint.Key]*column{}}
	slices.SortStableFunc(c.Types, func(a, b Type) int { return cmp.Compare(a.Name, b.Name) })
	c.Types = slices.CompactFunc(c.Types, func(a, b Type) bool { return a.Name == b.Name })
	for i, t := range c.Types {
		for _, o := range t.Offers {
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
	}
	for _, col := range c.columns {
		col.finish(len(c.Rows))
	}
	c.Measure(resources)
	return c
}

// Measure brings the vectors up to date with resources that pods have asked for
// since. Only the owner of the World may call it.
func (c *Catalog) Measure(resources *quantity.Space) {
	if c.measured == resources.Len() {
		return
	}
	c.measured = resources.Len()
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
// finds only the claim, for instance after a restart.
func Acceptable(types []Type, rules []constraint.Rule, requests quantity.Amounts) ([]Choice, error) {
	space := constraint.NewSpace()
	set, err := space.Set(rules)
	if err != nil {
		return nil, err
	}
	var kept []Type
	for _, t := range types {
		if holds(t.Capacity.Sub(t.Overhead), requests) {
			kept = append(kept, t)
		}
	}
	whole := Compile(space, quantity.NewSpace(), types)
	c := Compile(space, quantity.NewSpace(), kept)
	rows := bitset.Upto(len(c.Rows))
	for _, q := range set {
		if whole.Carries(q.Key) {
			rows = rows.And(c.Admitted(q))
		}
	}
	var out []Choice
	for i := range rows.All() {
		if c.Rows[i].Unavailable == "" {
			out = append(out, c.Choice(i))
		}
	}
	return out, nil
}

func holds(room, requests quantity.Amounts) bool {
	for name, n := range requests {
		if n > room[name] {
			return false
		}
	}
	return true
}
