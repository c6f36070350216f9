// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"cmp"
	"math"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
)

// domainsInUse are the topology domains in which nodes are to be launched anyway, for policy.sharedDomains:
// pods that may be elsewhere share these nodes.
type domainsInUse struct {
	values map[*constraint.Key]bitset.Set
}

// use records that a node is to be launched in the cell.
func (d *domainsInUse) use(c *cell) {
	for i, key := range c.Keys {
		if v := c.Values[i]; v >= 0 {
			d.useValue(key, v)
		}
	}
}

func (d *domainsInUse) useValue(key *constraint.Key, v int) {
	if d.values == nil {
		d.values = map[*constraint.Key]bitset.Set{}
	}
	in := d.values[key]
	in.Put(v)
	d.values[key] = in
}

// has reports whether some node is to be launched in each domain of the cell.
func (d *domainsInUse) has(c *cell) bool {
	for i, key := range c.Keys {
		if c.Values[i] < 0 || !d.values[key].Has(c.Values[i]) {
			return false
		}
	}
	return true
}

// nodeChoice is what nodes can be launched for pods of a shape.
type nodeChoice struct {
	price offering.Price // of the cheapest; the largest price when there is none
	// only has for some labels the value that each of them would have; negative where they could differ.
	only []int
}

// byFewest orders the groups for policy.sharedDomains: those that can be in few cells choose first, and of
// these the ones of which a node would cost the most. Groups whose nodes can only have one value of a label
// that others are constrained over come first, and the value counts as in use from the start.
func (cf *cellFinder) byFewest(groups []*podGroup) []*podGroup {
	keys := cf.constrainedOver(groups)
	ofShape := map[*cluster.PodShape]nodeChoice{}
	cells := make(map[*podGroup]int, len(groups))
	for _, g := range groups {
		choice, known := ofShape[g.shape]
		if !known {
			choice = cf.nodeChoice(g.shape, keys)
			ofShape[g.shape] = choice
		}
		cells[g] = math.MaxInt
		if len(g.domainKeys) > 0 {
			cells[g] = len(cf.find(g))
		}
		for i, v := range choice.only {
			if v >= 0 {
				cf.inUse.useValue(keys[i], v)
				cells[g] = min(cells[g], 1)
			}
		}
	}
	groups = slices.Clone(groups)
	slices.SortStableFunc(groups, func(a, b *podGroup) int {
		return cmp.Or(cmp.Compare(cells[a], cells[b]), cmp.Compare(ofShape[b.shape].price, ofShape[a.shape].price))
	})
	return groups
}

// constrainedOver lists the labels of offerings over which groups are constrained. Labels that only the pools
// set are left out: there may be as many as groups.
func (cf *cellFinder) constrainedOver(groups []*podGroup) []*constraint.Key {
	var keys []*constraint.Key
	looked := keySet{}
	for _, g := range groups {
		for _, key := range g.domainKeys {
			if !looked[key] && slices.ContainsFunc(cf.pools.launching, func(pool *poolState) bool { return pool.Catalog.HasLabel(key) }) {
				keys = append(keys, key)
			}
			looked[key] = true
		}
	}
	return keys
}

// nodeChoice finds out what nodes can be launched for pods of the shape, with what each of them would have of
// the labels.
func (cf *cellFinder) nodeChoice(shape *cluster.PodShape, keys []*constraint.Key) nodeChoice {
	out := nodeChoice{price: noMaxPrice, only: make([]int, len(keys))}
	for _, pool := range cf.pools.launching {
		if price, ok := cf.cheapestAvailable(pool, pool.Compatible(shape).All); ok {
			out.price = min(out.price, price)
		}
	}
	for i, key := range keys {
		out.only[i] = cf.onlyValue(shape, key)
	}
	return out
}

// onlyValue is the value of the label that every node launched for pods of the shape would have; negative
// when it could have others, or none can be launched.
func (cf *cellFinder) onlyValue(shape *cluster.PodShape, key *constraint.Key) int {
	value := -1
	for _, pool := range cf.pools.launching {
		all := pool.Compatible(shape).All
		for _, here := range pool.Cells([]*constraint.Key{key}) {
			if here.Values[0] == value {
				continue
			}
			cf.rows.Copy(all)
			cf.rows.Keep(here.Offerings)
			if _, ok := cf.cheapestAvailable(pool, cf.rows); !ok {
				continue
			}
			if value >= 0 || here.Values[0] < 0 {
				return -1
			}
			value = here.Values[0]
		}
	}
	return value
}
