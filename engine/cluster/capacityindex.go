// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"slices"
	"sort"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/quantity"
)

// capacityIndex finds by binary search the offerings that have at least a given amount of one
// resource: amounts ascend, and offerings[i] are the offerings with amounts[i] or more.
type capacityIndex struct {
	amounts   []int64
	offerings []bitset.Set
}

func newCapacityIndex(room []quantity.Vector, d quantity.Dim) *capacityIndex {
	order := make([]int, len(room))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return int(max(-1, min(1, room[a][d]-room[b][d]))) })
	l := &capacityIndex{}
	for _, i := range order {
		if n := room[i][d]; len(l.amounts) == 0 || l.amounts[len(l.amounts)-1] != n {
			l.amounts = append(l.amounts, n)
		}
	}
	l.offerings = make([]bitset.Set, len(l.amounts))
	var have bitset.Set
	at := len(order) - 1
	for r := len(l.amounts) - 1; r >= 0; r-- {
		for ; at >= 0 && room[order[at]][d] == l.amounts[r]; at-- {
			have.Put(order[at])
		}
		l.offerings[r] = have.Clone()
	}
	return l
}

func (l *capacityIndex) atLeast(n int64) bitset.Set {
	i, _ := slices.BinarySearch(l.amounts, n)
	if i == len(l.offerings) {
		return nil
	}
	return l.offerings[i]
}

// WithRoom returns the pool's offerings whose allocatable capacity holds v.
func (c *PoolCatalog) WithRoom(v *quantity.Vector) bitset.Set {
	out := c.Offerings.Clone()
	c.DropWithoutRoom(out, v)
	return out
}

// DropWithoutRoom removes the offerings whose allocatable capacity does not hold v.
func (c *PoolCatalog) DropWithoutRoom(rows bitset.Set, v *quantity.Vector) {
	for d, n := range v {
		if n > 0 {
			rows.Keep(c.capacityIndex(quantity.Dim(d)).atLeast(n))
		}
	}
}

// Most is the largest amount of one resource such that the offerings with at least that
// amount satisfy enough; false when there is none. When enough holds for some offerings, it
// must hold for every superset of them.
func (c *PoolCatalog) Most(d quantity.Dim, enough func(bitset.Set) bool) (int64, bool) {
	l := c.capacityIndex(d)
	n := sort.Search(len(l.amounts), func(i int) bool { return !enough(l.offerings[i]) })
	if n == 0 {
		return 0, false
	}
	return l.amounts[n-1], true
}

func (c *PoolCatalog) capacityIndex(d quantity.Dim) *capacityIndex {
	if c.capacityIndexes[d] == nil {
		c.capacityIndexes[d] = newCapacityIndex(c.Allocatable, d)
	}
	return c.capacityIndexes[d]
}
