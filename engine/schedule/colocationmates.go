// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/quantity"
)

// mate is a colocation that may share a launch with an earlier one.
type mate struct {
	*colocation
	requests quantity.Vector // of its pods without a place
}

// maxMates is how many later colocations one colocation looks for: what those request beyond the largest
// node makes no difference.
const maxMates = 128

// matesAmong finds the colocations of the list whose pods may be on a node with those of this one. Hostname
// spread is not looked at, and neither are domains.
func (c *colocation) matesAmong(later []*colocation) {
	c.mates = c.mates[:0]
	for _, o := range later {
		if len(c.mates) == maxMates {
			return
		}
		if requests := unassignedRequests(o.groups); !requests.IsZero() && !c.keepsOff(o) && !o.keepsOff(c) {
			c.mates = append(c.mates, mate{colocation: o, requests: requests})
		}
	}
}

// keepsOff reports whether the pods' rules keep some pods of the other colocation off their node.
func (c *colocation) keepsOff(o *colocation) bool {
	return slices.ContainsFunc(o.groups, func(g *podGroup) bool { return c.residents.keepOff(&g.nodeRules) })
}

// rowsIn are the offerings of the pool that each of the pods can be on, as far as they have no place yet.
func (c *colocation) rowsIn(pool *poolState) bitset.Set {
	rows, ok := c.rows[pool]
	if !ok {
		rows = pool.Compatible(c.groups[0].shape).All.Clone()
		for _, g := range c.groups[1:] {
			rows.Keep(pool.Compatible(g.shape).All)
		}
		c.rows[pool] = rows
	}
	return rows
}

// laterShares is how many more shares of the size of used a node of the offering has room for, as far as
// mates request that much.
func (c *colocation) laterShares(pool *poolState, row int, used *quantity.Vector) int {
	var later quantity.Vector
	for _, m := range c.mates {
		if m.rowsIn(pool).Has(row) {
			later = later.Add(m.requests)
		}
	}
	allocatable := &pool.Allocatable[row]
	n := -1
	for d, amount := range used {
		if amount > 0 {
			if of := int(min(later[d], allocatable[d]-amount) / amount); n < 0 || of < n {
				n = of
			}
		}
	}
	return max(0, n)
}
