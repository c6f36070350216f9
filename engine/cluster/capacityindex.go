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

// capacityIndexes has an index for each resource that was asked for.
type capacityIndexes [quantity.Dims]*capacityIndex

func newCapacityIndex(allocatable []quantity.Vector, d quantity.Dim) *capacityIndex {
	order := make([]int, len(allocatable))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return int(max(-1, min(1, allocatable[a][d]-allocatable[b][d]))) })
	x := &capacityIndex{}
	for _, i := range order {
		if n := allocatable[i][d]; len(x.amounts) == 0 || x.amounts[len(x.amounts)-1] != n {
			x.amounts = append(x.amounts, n)
		}
	}
	x.offerings = make([]bitset.Set, len(x.amounts))
	var have bitset.Set
	at := len(order) - 1
	for r := len(x.amounts) - 1; r >= 0; r-- {
		for ; at >= 0 && allocatable[order[at]][d] == x.amounts[r]; at-- {
			have.Put(order[at])
		}
		x.offerings[r] = have.Clone()
	}
	return x
}

func (x *capacityIndex) atLeast(n int64) bitset.Set {
	i, _ := slices.BinarySearch(x.amounts, n)
	if i == len(x.offerings) {
		return nil
	}
	return x.offerings[i]
}

// WithCapacity returns the pool's offerings whose allocatable capacity holds v.
func (c *PoolCatalog) WithCapacity(v *quantity.Vector) bitset.Set {
	out := c.Offerings.Clone()
	c.DropNotFitting(out, v)
	return out
}

// DropNotFitting removes the offerings whose allocatable capacity does not hold v.
func (c *PoolCatalog) DropNotFitting(offerings bitset.Set, v *quantity.Vector) {
	for d, n := range v {
		if n > 0 {
			offerings.Keep(c.capacityIndex(quantity.Dim(d)).atLeast(n))
		}
	}
}

// LargestAmount is the largest amount of one resource such that the offerings with at least that
// amount satisfy enough; false when there is none. When enough holds for some offerings, it
// must hold for every superset of them.
func (c *PoolCatalog) LargestAmount(d quantity.Dim, enough func(bitset.Set) bool) (int64, bool) {
	x := c.capacityIndex(d)
	n := sort.Search(len(x.amounts), func(i int) bool { return !enough(x.offerings[i]) })
	if n == 0 {
		return 0, false
	}
	return x.amounts[n-1], true
}

func (c *PoolCatalog) capacityIndex(d quantity.Dim) *capacityIndex {
	if c.capacityIndexes[d] == nil {
		c.capacityIndexes[d] = newCapacityIndex(c.Allocatable, d)
	}
	return c.capacityIndexes[d]
}
