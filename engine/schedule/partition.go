// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
)

// partition is the offerings of one pool for which the group's spread filters agree.
type partition struct {
	name     string // the filters' answers, "" for none; different for each partition of a pod group
	inFilter []bool // by spread filter: whether it looks here
	set      constraint.Set
	rows     bitset.Set
}

// partitions splits the offerings of a pool in a cell by the answers of the group's spread filters.
// Offerings on which a launch can choose between labels are in one partition for each of the answers
// that it can choose.
func (t *topology) partitions(g *podGroup, pool *poolState, here cluster.CellOfferings) []partition {
	out := []partition{{rows: here.Offerings}}
	for _, f := range g.spreadFilters {
		of := t.filteredOfferings(g, pool, f)
		var next []partition
		for _, p := range out {
			next = append(next, p.split(f, of, func(set constraint.Set) bool { return g.canHold(set, p.set, pool, here.Values) })...)
		}
		out = next
	}
	return out
}

// split divides the partition into the offerings that the filter looks at, by alternative, and the
// others. The filter's sets hold where canHold says so.
func (p partition) split(f *spreadFilter, of *filteredOfferings, canHold func(constraint.Set) bool) []partition {
	var out []partition
	add := func(name string, inside bool, set constraint.Set, rows bitset.Set) {
		if !rows.Empty() {
			out = append(out, partition{name: p.name + name, inFilter: append(slices.Clone(p.inFilter), inside), set: p.set.And(set), rows: rows})
		}
	}
	rest := p.rows
	for i, rows := range of.alternatives {
		if here := rest.And(rows); !here.Empty() && canHold(f.alternatives[i]) {
			add(f.name(i), true, f.alternatives[i], here)
			rest = rest.Minus(here)
		}
	}
	add(f.name(-1), false, nil, rest)
	for i, rows := range of.outside {
		if here := p.rows.And(rows).Minus(rest); !here.Empty() && canHold(f.outside[i]) {
			add(f.nameOutside(i), false, f.outside[i], here)
		}
	}
	return out
}

// canHold reports whether a launch from the pool can have labels that meet both sets, as far as those
// are the group's keys, which have the values, or labels that only the pool sets.
func (g *podGroup) canHold(set, with constraint.Set, pool *poolState, values []int) bool {
	return !slices.ContainsFunc(set, func(q constraint.Requirement) bool {
		if i := slices.Index(g.domainKeys, q.Key); i >= 0 {
			if v := values[i]; v < 0 && !q.AdmitsAbsent() || v >= 0 && !q.Admits(v) {
				return true
			}
		}
		if pool.Catalog.HasLabel(q.Key) {
			return false // each offering has its own
		}
		for _, of := range []constraint.Set{with, pool.NodeRequirements} {
			if had, ok := of.Get(q.Key); ok {
				q = q.And(had)
			}
		}
		return !q.Possible()
	})
}

// partitionOf is the partition that an existing node is in.
func (g *podGroup) partitionOf(node *cluster.NodeInfo) partition {
	var p partition
	for _, f := range g.spreadFilters {
		alternative := slices.IndexFunc(f.alternatives, node.Matches)
		if f.filter.taints != nil && !node.Tolerated(f.filter.taints) {
			alternative = -1
		}
		p.name, p.inFilter = p.name+f.name(alternative), append(p.inFilter, alternative >= 0)
	}
	return p
}
