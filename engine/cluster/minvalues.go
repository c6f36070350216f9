// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"slices"

	"github.com/karve-dev/karve/engine/constraint"
)

// MinValues is a label with the pool's minValues: every launch of the pool must leave at
// least Min values of the label possible.
type MinValues struct {
	Key *constraint.Key
	Min int

	values     [][]int // by offering; nil when the catalog does not have the label
	sameForAll []int   // then: the one value that every node of the pool gets, if any
}

// Values are the values of the label that a node launched from the offering may have. They
// must not be changed.
func (v *MinValues) Values(row int) []int {
	if v.values == nil {
		return v.sameForAll
	}
	return v.values[row]
}

// PerOffering reports whether the offerings themselves have the label.
func (v *MinValues) PerOffering() bool { return v.values != nil }

// compileMinValues compiles the minValues of rules. Where a label has several, the largest counts.
func (c *PoolCatalog) compileMinValues(interner *constraint.Interner, rules Term) {
	for _, r := range rules {
		if r.MinValues <= 0 {
			continue
		}
		key := interner.Key(r.Key)
		if i := slices.IndexFunc(c.MinValues, func(v MinValues) bool { return v.Key == key }); i >= 0 {
			c.MinValues[i].Min = max(c.MinValues[i].Min, r.MinValues)
			continue
		}
		v := MinValues{Key: key, Min: r.MinValues}
		switch q, _ := c.NodeRequirements.Get(key); {
		case c.Catalog.HasLabel(key):
			v.values = c.Catalog.Values(key)
		case !q.AdmitsAbsent():
			v.sameForAll = []int{0} // one value, whichever it will be
		}
		c.MinValues = append(c.MinValues, v)
	}
}
