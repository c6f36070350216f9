// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/constraint"
)

// Cell is one value for each of some labels: a zone, or a zone and a capacity type. A
// negative value means that the node does not have the label.
type Cell struct {
	Keys   []*constraint.Key
	Values []int
}

// Set returns the cell as requirements.
func (c *Cell) Set() constraint.Set {
	var out constraint.Set
	for i, k := range c.Keys {
		if c.Values[i] < 0 {
			out = out.With(k.Missing())
			continue
		}
		out = out.With(k.Only(c.Values[i]))
	}
	return out
}

// maxCellLists is for how many lists of keys a pool catalog keeps its cells before it drops them
// all: new pods may keep naming other labels while the pool does not change.
const maxCellLists = 1024

// Cells lists the cells over keys in which the pool has offerings, with these offerings. It
// is computed once per list of keys.
func (c *PoolCatalog) Cells(keys []*constraint.Key) []CellOfferings {
	var short [64]byte // so that looking up usual labels allocates nothing
	name := short[:0]
	for _, k := range keys {
		name = append(append(name, k.Name...), 0)
	}
	if cells, ok := c.cells[string(name)]; ok {
		return cells
	}
	cells := []CellOfferings{{Offerings: c.Offerings}}
	for i, k := range keys {
		var next []CellOfferings
		for _, v := range c.valuesOf(k) {
			cell := Cell{Keys: keys[i : i+1], Values: []int{v}}
			offerings := c.meetingToo(cell.Set())
			for _, found := range cells {
				if both := found.Offerings.And(offerings); !both.Empty() {
					next = append(next, CellOfferings{Values: append(slices.Clone(found.Values), v), Offerings: both})
				}
			}
		}
		cells = next
	}
	if len(c.cells) >= maxCellLists {
		clear(c.cells)
	}
	c.cells[string(name)] = cells
	return cells
}

// CellOfferings is a Cell's values and the offerings of one pool in that cell.
type CellOfferings struct {
	Values    []int
	Offerings bitset.Set
}

// valuesOf lists the values of a label that nodes of the pool may have; -1 stands for no
// label.
func (c *PoolCatalog) valuesOf(k *constraint.Key) []int {
	if c.Catalog.HasLabel(k) {
		return append(slices.Clone(c.Catalog.IDs(k)), -1)
	}
	q, ok := c.NodeRequirements.Get(k)
	if !ok {
		return []int{-1}
	}
	values, finite := q.Values()
	if !finite {
		if v, ok := q.AnyValue(); ok {
			return []int{k.ID(v)}
		}
		return []int{k.ID(q.Fresh("true"))}
	}
	out := make([]int, len(values))
	for i, v := range values {
		out[i] = k.ID(v)
	}
	return out
}
