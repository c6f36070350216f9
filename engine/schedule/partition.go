// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"slices"
	"strconv"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
)

// spreadFilter is a nodeFilter applied to offerings. When pods that a spread constraint
// counts are assigned to a cell, it must be settled whether the constraint looks at the
// cell's nodes, or the counts it was placed by are wrong.
type spreadFilter struct {
	filter nodeFilter
	id     int
	// ways are label requirements; a node that the filter looks at meets one of them.
	ways []constraint.Set
}

// partition is the offerings of one pool for which the group's spread filters agree.
type partition struct {
	name string // the filters' answers, "" for none; different for each partition of a pod group
	in   []bool // by spread filter: whether it looks here
	set  constraint.Set
	rows bitset.Set
}

// maxSpreadFilters bounds how many spread filters divide the offerings, as each may double
// the number of partitions. Further filters are taken to look at all nodes.
const maxSpreadFilters = 6

// spreadFilter returns the shared filter for a domain count.
func (s *topology) spreadFilter(t *domainCount) *spreadFilter {
	if v := s.filters[t.filter]; v != nil {
		return v
	}
	v := &spreadFilter{filter: t.filter, id: len(s.filters), ways: []constraint.Set{nil}}
	if t.filter.affinity != nil {
		v.ways = slices.Clone(t.filter.affinity.OwnRequirements())
	}
	for i := range v.ways {
		for _, key := range t.keys {
			if key.Name != cluster.LabelHostname { // every node has a hostname
				v.ways[i] = v.ways[i].With(key.Present())
			}
		}
	}
	s.filters[t.filter] = v
	return v
}

// findSpreadFilters finds the spread filters whose answer differs between places for the pod
// group. Left out are filters that pass every node which accepts the group, and those of soft
// spreads. The group's keys must be known.
func (s *topology) findSpreadFilters(g *podGroup) {
	for i := range g.domainIncrements {
		t := g.domainIncrements[i].count
		g.domainIncrements[i].filter = -1
		own := func(of *cluster.PodShape) bool { return of == nil || of == g.class.PodShape }
		if !t.hard || own(t.filter.affinity) && own(t.filter.taints) && !slices.ContainsFunc(t.keys, func(key *constraint.Key) bool {
			return key.Name != cluster.LabelHostname && !slices.Contains(g.domainKeys, key)
		}) {
			continue
		}
		v := s.spreadFilter(t)
		at := slices.Index(g.spreadFilters, v)
		if at < 0 && len(g.spreadFilters) < maxSpreadFilters {
			at = len(g.spreadFilters)
			g.spreadFilters = append(g.spreadFilters, v)
		}
		g.domainIncrements[i].filter = at
	}
}

// partitions splits offerings of a pool by the answers of the group's spread filters.
func (s *topology) partitions(g *podGroup, pool *poolState, rows bitset.Set) []partition {
	out := []partition{{rows: rows}}
	for _, v := range g.spreadFilters {
		ways := s.through(g, pool, v)
		var next []partition
		for _, p := range out {
			next = append(next, p.split(v, ways)...)
		}
		out = next
	}
	return out
}

// split divides the partition into the offerings that v looks at, by way, and the others.
func (p partition) split(v *spreadFilter, ways []bitset.Set) []partition {
	var out []partition
	rest := p.rows
	for i, way := range ways {
		if here := rest.And(way); !here.Empty() {
			out = append(out, partition{name: p.name + v.name(i), in: append(slices.Clone(p.in), true), set: p.set.And(v.ways[i]), rows: here})
			rest = rest.Minus(here)
		}
	}
	if !rest.Empty() {
		out = append(out, partition{name: p.name + v.name(-1), in: append(slices.Clone(p.in), false), set: p.set, rows: rest})
	}
	return out
}

// name is the filter's answer; a negative way means that it does not look there.
func (v *spreadFilter) name(way int) string {
	if way < 0 {
		return " outside " + strconv.Itoa(v.id)
	}
	return " inside " + strconv.Itoa(v.id) + "." + strconv.Itoa(way)
}

// through returns, by way, the offerings that the filter can look at when they carry pods of
// the group. A launch that can choose between labels will have to choose those of the way.
func (s *topology) through(g *podGroup, pool *poolState, v *spreadFilter) []bitset.Set {
	key := throughKey{pool.PoolCatalog, g.shape, v}
	if rows, ok := s.lookedAt[key]; ok {
		return rows
	}
	var out []bitset.Set
	if v.filter.tolerates(pool.Pool.Taints) {
		for _, way := range v.ways {
			out = append(out, pool.MatchingBoth(g.shape, way))
		}
	}
	s.lookedAt[key] = out
	return out
}

// throughKey is the key of topology.lookedAt.
type throughKey struct {
	pool   *cluster.PoolCatalog
	shape  *cluster.PodShape
	filter *spreadFilter
}

func (f nodeFilter) tolerates(taints []cluster.Taint) bool {
	if f.taints == nil {
		return true
	}
	_, ok := cluster.Tolerates(f.taints.Tolerations, taints)
	return ok
}

// partitionOf is the partition that an existing node is in.
func (g *podGroup) partitionOf(node *cluster.NodeInfo) partition {
	var p partition
	for _, v := range g.spreadFilters {
		way := slices.IndexFunc(v.ways, node.Matches)
		if v.filter.taints != nil && !node.Tolerated(v.filter.taints) {
			way = -1
		}
		p.name, p.in = p.name+v.name(way), append(p.in, way >= 0)
	}
	return p
}
