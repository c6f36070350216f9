// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"cmp"
	"math"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
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

// byFewest orders the groups for policy.sharedDomains: those that can be in few cells choose first, and of
// these the ones of which a node would cost the most. Groups without rules over domains whose nodes can
// only have one value of a label that others are constrained over count as in use there from the start;
// they come first.
func (cf *cellFinder) byFewest(groups []*podGroup) []*podGroup {
	var keys []*constraint.Key
	for _, g := range groups {
		for _, key := range g.domainKeys {
			if !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	type choice struct {
		cells int
		price offering.Price // of the cheapest node
	}
	choices := make(map[*podGroup]choice, len(groups))
	for _, g := range groups {
		c := choice{math.MaxInt, cf.cheapestNode(g)}
		if len(g.domainKeys) > 0 {
			c.cells = len(cf.find(g))
		}
		for _, key := range keys {
			if v, only := cf.onlyValue(g, key); only {
				cf.inUse.useValue(key, v)
				c.cells = min(c.cells, 1)
			}
		}
		choices[g] = c
	}
	groups = slices.Clone(groups)
	slices.SortStableFunc(groups, func(a, b *podGroup) int {
		return cmp.Or(cmp.Compare(choices[a].cells, choices[b].cells), cmp.Compare(choices[b].price, choices[a].price))
	})
	return groups
}

// cheapestNode is the least price for which a node can be launched for pods of the group; the largest price
// when none can.
func (cf *cellFinder) cheapestNode(g *podGroup) offering.Price {
	least := noMaxPrice
	for _, pool := range cf.pools.launching {
		if price, ok := cf.cheapestAvailable(pool, pool.Compatible(g.shape).All); ok {
			least = min(least, price)
		}
	}
	return least
}

// onlyValue is the value of the label that every node launched for the group would have; false when it
// could have others, or none can be launched.
func (cf *cellFinder) onlyValue(g *podGroup, key *constraint.Key) (value int, only bool) {
	value = -1
	for _, pool := range cf.pools.launching {
		all := pool.Compatible(g.shape).All
		for _, here := range pool.Cells([]*constraint.Key{key}) {
			if here.Values[0] == value {
				continue
			}
			if _, ok := cf.cheapestAvailable(pool, all.And(here.Offerings)); !ok {
				continue
			}
			if value >= 0 || here.Values[0] < 0 {
				return 0, false
			}
			value = here.Values[0]
		}
	}
	return value, value >= 0
}
