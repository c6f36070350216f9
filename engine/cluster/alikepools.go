// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"slices"

	"github.com/karve-dev/karve/engine/constraint"
)

// poolLikeness says which pool offers pods the same as this one. Clusters may have a NodePool per
// team, all of which launch from one large catalog: what fits a shape is then found out once.
type poolLikeness struct {
	first     *PoolCatalog      // the first of the pools that are alike, perhaps removed since
	differing []*constraint.Key // labels for which the first pool requires something else
}

// FirstAlike returns the pool that stands for all those which pods that look at no other labels
// than keys can use alike: the same offerings, with the same capacity, taints, host ports and
// values of these labels. Limits, minValues and weight may differ.
func (c *PoolCatalog) FirstAlike(keys ...[]*constraint.Key) *PoolCatalog {
	if c.likeness.first == nil {
		return c
	}
	for _, list := range keys {
		for _, k := range list {
			if slices.Contains(c.likeness.differing, k) {
				return c
			}
		}
	}
	return c.likeness.first
}

// findAlike finds out which of the pools are alike.
func findAlike(pools []*PoolCatalog) {
	var firsts []*PoolCatalog
	for _, c := range pools {
		c.likeness = poolLikeness{}
		if i := slices.IndexFunc(firsts, c.alike); i >= 0 {
			c.likeness = poolLikeness{firsts[i], c.differingKeys(firsts[i])}
			continue
		}
		firsts = append(firsts, c)
	}
}

// alike reports whether pods that look at no label which only the pools set can use both alike.
func (c *PoolCatalog) alike(o *PoolCatalog) bool {
	return c.Catalog == o.Catalog && slices.Equal(c.Pool.Taints, o.Pool.Taints) && c.Offerings.Equal(o.Offerings) &&
		c.allocatableKey == o.allocatableKey && c.catalogRequirements().Equal(o.catalogRequirements())
}

// catalogRequirements are the node requirements on labels that offerings have.
func (c *PoolCatalog) catalogRequirements() constraint.Set {
	return slices.DeleteFunc(slices.Clone(c.NodeRequirements), func(q constraint.Requirement) bool { return !c.Catalog.HasLabel(q.Key) })
}

// differingKeys are the labels for which the pools' node requirements differ.
func (c *PoolCatalog) differingKeys(o *PoolCatalog) []*constraint.Key {
	var out []*constraint.Key
	for _, sets := range [][2]constraint.Set{{c.NodeRequirements, o.NodeRequirements}, {o.NodeRequirements, c.NodeRequirements}} {
		for _, q := range sets[0] {
			if other, ok := sets[1].Get(q.Key); !ok || !(constraint.Set{q}).Equal(constraint.Set{other}) {
				out = append(out, q.Key)
			}
		}
	}
	return out
}
