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
	// alternatives are label requirements; a node that the filter looks at meets one of them.
	alternatives []constraint.Set
	// outside are label requirements, too; a node that meets one of them meets no alternative.
	outside []constraint.Set
}

// maxSpreadFilters bounds how many spread filters divide the offerings, as each may double
// the number of partitions. Further filters are taken to look at all nodes.
const maxSpreadFilters = 6

// spreadFilter returns the shared filter for a domain count.
func (t *topology) spreadFilter(dc *domainCount) *spreadFilter {
	if f := t.filters[dc.filter]; f != nil {
		return f
	}
	f := &spreadFilter{filter: dc.filter, id: len(t.filters), alternatives: []constraint.Set{nil}}
	if dc.filter.affinity != nil {
		f.alternatives = slices.Clone(dc.filter.affinity.OwnRequirements())
	}
	for i := range f.alternatives {
		for _, key := range dc.requiredKeys {
			if key.Name != cluster.LabelHostname { // every node has a hostname
				f.alternatives[i] = f.alternatives[i].With(key.Present())
			}
		}
	}
	f.outside = outsideOf(f.alternatives)
	t.filters[dc.filter] = f
	return f
}

// maxOutside bounds the ways to meet no alternative that are tried: their number doubles with each.
const maxOutside = 8

// outsideOf lists requirements that meet no alternative: each asks, for every alternative, for another
// value of one of its labels.
func outsideOf(alternatives []constraint.Set) []constraint.Set {
	out := []constraint.Set{nil}
	for _, alternative := range alternatives {
		var next []constraint.Set
		for _, set := range out {
			for _, q := range alternative {
				if other, ok := q.Others(); ok && len(next) < maxOutside {
					next = append(next, set.With(other))
				}
			}
		}
		out = next
	}
	return out
}

// findSpreadFilters finds the spread filters whose answer differs between places for the pod
// group. Left out are filters that pass every node which accepts the group, and those of soft
// spreads. The group's keys must be known.
func (t *topology) findSpreadFilters(g *podGroup) {
	for i := range g.domainIncrements {
		dc := g.domainIncrements[i].like
		g.domainIncrements[i].filter = -1
		own := func(of *cluster.PodShape) bool { return of == nil || of == g.class.PodShape }
		if !dc.hard || own(dc.filter.affinity) && own(dc.filter.taints) && !slices.ContainsFunc(dc.requiredKeys, func(key *constraint.Key) bool {
			return key.Name != cluster.LabelHostname && !slices.Contains(g.domainKeys, key)
		}) {
			continue
		}
		f := t.spreadFilter(dc)
		at := slices.Index(g.spreadFilters, f)
		if at < 0 && len(g.spreadFilters) < maxSpreadFilters {
			at = len(g.spreadFilters)
			g.spreadFilters = append(g.spreadFilters, f)
		}
		g.domainIncrements[i].filter = at
	}
}

// name is the filter's answer; a negative alternative means that it does not look there.
func (f *spreadFilter) name(alternative int) string {
	if alternative < 0 {
		return " outside " + strconv.Itoa(f.id)
	}
	return " inside " + strconv.Itoa(f.id) + "." + strconv.Itoa(alternative)
}

// nameOutside is the filter's answer where a launch chooses labels that meet no alternative.
func (f *spreadFilter) nameOutside(i int) string { return f.name(-1) + "." + strconv.Itoa(i) }

// filteredOfferings are the offerings of one pool where the filter can look, by alternative, when they
// carry pods of a group. The launch has to meet the alternative where it can choose between labels.
type filteredOfferings struct {
	alternatives []bitset.Set
	// outside are those of them that can meet one of spreadFilter.outside instead.
	outside []bitset.Set
}

// filteredOfferings returns what the filter finds of the pool's offerings for pods of the group.
func (t *topology) filteredOfferings(g *podGroup, pool *poolState, f *spreadFilter) *filteredOfferings {
	key := filterKey{pool.PoolCatalog, g.shape, f}
	if of := t.inFilter[key]; of != nil {
		return of
	}
	of := &filteredOfferings{}
	if f.filter.tolerates(pool.Pool.Taints) {
		var inside bitset.Set
		for _, alternative := range f.alternatives {
			rows := pool.MatchingBoth(g.shape, alternative)
			of.alternatives = append(of.alternatives, rows)
			inside.Merge(rows)
		}
		for _, set := range f.outside {
			of.outside = append(of.outside, pool.MatchingBoth(g.shape, set).And(inside))
		}
	}
	t.inFilter[key] = of
	return of
}

// filterKey is the key of topology.inFilter.
type filterKey struct {
	pool   *cluster.PoolCatalog
	shape  *cluster.PodShape
	filter *spreadFilter
}

// tolerates reports whether the filter looks at nodes with those taints.
func (f nodeFilter) tolerates(taints []cluster.Taint) bool {
	if f.taints == nil {
		return true
	}
	_, ok := cluster.Tolerates(f.taints.Tolerations, taints)
	return ok
}
