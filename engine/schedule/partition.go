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

// partitions splits offerings of a pool by the answers of the group's spread filters.
func (t *topology) partitions(g *podGroup, pool *poolState, rows bitset.Set) []partition {
	out := []partition{{rows: rows}}
	for _, f := range g.spreadFilters {
		alternatives := t.offeringsInFilter(g, pool, f)
		var next []partition
		for _, p := range out {
			next = append(next, p.split(f, alternatives)...)
		}
		out = next
	}
	return out
}

// split divides the partition into the offerings that the filter looks at, by alternative, and the
// others.
func (p partition) split(f *spreadFilter, alternatives []bitset.Set) []partition {
	var out []partition
	rest := p.rows
	for i, alternative := range alternatives {
		if here := rest.And(alternative); !here.Empty() {
			out = append(out, partition{name: p.name + f.name(i), inFilter: append(slices.Clone(p.inFilter), true), set: p.set.And(f.alternatives[i]), rows: here})
			rest = rest.Minus(here)
		}
	}
	if !rest.Empty() {
		out = append(out, partition{name: p.name + f.name(-1), inFilter: append(slices.Clone(p.inFilter), false), set: p.set, rows: rest})
	}
	return out
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
