// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
)

// Names reports whether the pool names the burstable type, and so accepts that its cpu is not
// there all the time: a label or a requirement with the operator In, on a label by which the type
// is named, has the type's value.
func (p *NodePool) Names(t *offering.InstanceType) bool {
	return slices.ContainsFunc(t.NamedBy, func(key string) bool {
		values := t.Values(key)
		if slices.Contains(values, p.Labels[key]) {
			return true
		}
		return slices.ContainsFunc(p.Requirements, func(r constraint.Rule) bool {
			return r.Key == key && r.Operator == constraint.In && slices.ContainsFunc(r.Values, func(v string) bool { return slices.Contains(values, v) })
		})
	})
}

// limitedToSustainedCPU returns the types of which the pool counts only the cpu that they have all
// the time.
func (c *PoolCatalog) limitedToSustainedCPU() bitset.Set {
	var limited bitset.Set
	if c.Pool.FullCPU {
		return limited
	}
	for i := range c.Catalog.Burstable.All() {
		if !c.Pool.Names(&c.Catalog.Types[i]) {
			limited.Put(i)
		}
	}
	return limited
}

func limitedKey(limited bitset.Set) string { return string(limited.Append(nil)) }

// Room is what a node launched from offering i reports for pods, less what DaemonSets take:
// Allocatable, and all cpu of burstable types.
func (c *PoolCatalog) Room(i int) quantity.Vector {
	return c.Catalog.Allocatable[c.Catalog.Offerings[i].Type].Sub(c.DaemonOverhead[i])
}
