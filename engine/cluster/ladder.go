// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"slices"
	"sort"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/quantity"
)

// ladder answers with one binary search which offerings have at least a given amount of one
// resource: rungs ascend, and rows[i] are the offerings with rungs[i] or more.
type ladder struct {
	rungs []int64
	rows  []bitset.Set
}

func newLadder(room []quantity.Vector, d quantity.Dim) *ladder {
	order := make([]int, len(room))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return int(max(-1, min(1, room[a][d]-room[b][d]))) })
	l := &ladder{}
	for _, i := range order {
		if n := room[i][d]; len(l.rungs) == 0 || l.rungs[len(l.rungs)-1] != n {
			l.rungs = append(l.rungs, n)
		}
	}
	l.rows = make([]bitset.Set, len(l.rungs))
	var have bitset.Set
	at := len(order) - 1
	for r := len(l.rungs) - 1; r >= 0; r-- {
		for ; at >= 0 && room[order[at]][d] == l.rungs[r]; at-- {
			have.Put(order[at])
		}
		l.rows[r] = have.Clone()
	}
	return l
}

func (l *ladder) atLeast(n int64) bitset.Set {
	i, _ := slices.BinarySearch(l.rungs, n)
	if i == len(l.rows) {
		return nil
	}
	return l.rows[i]
}

// WithRoom returns the pool's offerings whose allocatable capacity holds v.
func (m *PoolCatalog) WithRoom(v *quantity.Vector) bitset.Set {
	out := m.Offerings.Clone()
	m.DropWithoutRoom(out, v)
	return out
}

// DropWithoutRoom removes the offerings whose allocatable capacity does not hold v.
func (m *PoolCatalog) DropWithoutRoom(rows bitset.Set, v *quantity.Vector) {
	for d, n := range v {
		if n > 0 {
			rows.Keep(m.ladder(quantity.Dim(d)).atLeast(n))
		}
	}
}

// Most is the largest amount of one resource such that the offerings with at least that
// amount satisfy enough; false when there is none. When enough holds for some offerings, it
// must hold for every superset of them.
func (m *PoolCatalog) Most(d quantity.Dim, enough func(bitset.Set) bool) (int64, bool) {
	l := m.ladder(d)
	n := sort.Search(len(l.rungs), func(i int) bool { return !enough(l.rows[i]) })
	if n == 0 {
		return 0, false
	}
	return l.rungs[n-1], true
}

func (m *PoolCatalog) ladder(d quantity.Dim) *ladder {
	if m.ladders[d] == nil {
		m.ladders[d] = newLadder(m.Allocatable, d)
	}
	return m.ladders[d]
}

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

// mostCells is for how many lists of keys a pool catalog keeps its cells before it drops them
// all: new pods may keep naming other labels while the pool does not change.
const mostCells = 1024

// Cells lists the cells over keys in which the pool has offerings, with these offerings. It
// is computed once per list of keys.
func (m *PoolCatalog) Cells(keys []*constraint.Key) []CellOfferings {
	name := ""
	for _, k := range keys {
		name += k.Name + "\x00"
	}
	if cells, ok := m.cells[name]; ok {
		return cells
	}
	cells := []CellOfferings{{Offerings: m.Offerings}}
	for i, k := range keys {
		var next []CellOfferings
		for _, v := range m.valuesOf(k) {
			cell := Cell{Keys: keys[i : i+1], Values: []int{v}}
			set := cell.Set()
			rows := m.admitted(m.Base.And(set), set)
			for _, had := range cells {
				if both := had.Offerings.And(rows); !both.Empty() {
					next = append(next, CellOfferings{Values: append(slices.Clone(had.Values), v), Offerings: both})
				}
			}
		}
		cells = next
	}
	if len(m.cells) >= mostCells {
		clear(m.cells)
	}
	m.cells[name] = cells
	return cells
}

// CellOfferings is a Cell's values and the offerings of one pool in that cell.
type CellOfferings struct {
	Values    []int
	Offerings bitset.Set
}

// valuesOf lists the values of a label that nodes of the pool may have; -1 stands for no
// label.
func (m *PoolCatalog) valuesOf(k *constraint.Key) []int {
	if m.Catalog.HasLabel(k) {
		return append(slices.Clone(m.Catalog.IDs(k)), -1)
	}
	q, ok := m.Base.Get(k)
	if !ok {
		return []int{-1}
	}
	values, finite := q.Values()
	if !finite {
		if v, ok := q.Any(); ok {
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
