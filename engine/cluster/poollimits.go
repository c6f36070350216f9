// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/quantity"
)

// UncountedLimit is a limit on a resource without a position, and the offerings that it rules
// out: those with any of the resource, or all when the limit is exceeded already.
type UncountedLimit struct {
	Limit     string
	Left      int64
	Offerings bitset.Set
}

// setLimits computes what is left of the pool's limits.
func (c *PoolCatalog) setLimits(resources *quantity.Positions, used PoolUsage) {
	c.NodesLeft, c.Limited, c.Left, c.UncountedLimits = -1, nil, quantity.Vector{}, nil
	for _, name := range c.Pool.Limits.Names() {
		limit := c.Pool.Limits[name]
		if name == quantity.NameNodes {
			c.NodesLeft = max(0, int(min(limit, 1<<30))-int(used.Nodes))
			continue
		}
		left := limit - used.Capacity[name]
		d, ok := resources.Position(name)
		if !ok {
			c.addUncounted(resources, name, left)
			continue
		}
		c.Limited = append(c.Limited, d)
		c.Left[d] = left
	}
}

// addUncounted adds a limit on a resource that has no position: nothing offers it, or there
// are more resources than positions.
func (c *PoolCatalog) addUncounted(resources *quantity.Positions, name string, left int64) {
	if left >= 0 && !resources.IsOfferedBy(quantity.Catalogs, name) {
		return
	}
	var offerings bitset.Set
	for i, o := range c.Catalog.Offerings {
		if left < 0 || c.Catalog.Types[o.Type].Capacity[name] > 0 {
			offerings.Put(i)
		}
	}
	c.UncountedLimits = append(c.UncountedLimits, UncountedLimit{Limit: name, Left: left, Offerings: offerings})
}
