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
	t.filters[dc.filter] = f
	return f
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

// offeringsInFilter returns, by alternative, the offerings that the filter can look at when
// they carry pods of the group. A launch that can choose between labels will have to choose
// those of the alternative.
func (t *topology) offeringsInFilter(g *podGroup, pool *poolState, f *spreadFilter) []bitset.Set {
	key := filterKey{pool.PoolCatalog, g.shape, f}
	if rows, ok := t.inFilter[key]; ok {
		return rows
	}
	var out []bitset.Set
	if f.filter.tolerates(pool.Pool.Taints) {
		for _, alternative := range f.alternatives {
			out = append(out, pool.MatchingBoth(g.shape, alternative))
		}
	}
	t.inFilter[key] = out
	return out
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
