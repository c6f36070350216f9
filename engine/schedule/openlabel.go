// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"maps"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
)

// inCountedDomains does not tell the values of a label apart that only the pool sets, and may leave open:
// each offering may have any of them. While launches may open no domain, these say which values a launch
// may have.

// dropOpening drops the offerings on which a launch in the cell of these values would open a domain.
func (t *topology) dropOpening(rows *bitset.Set, pool *poolState, keys []*constraint.Key, values []int) {
	t.inCountedDomains(pool)
	for _, dc := range pool.openCounts {
		if i := slices.Index(keys, dc.key); i >= 0 && values[i] >= 0 && t.opens(dc, pool, pool.NodeRequirements, values[i]) {
			rows.DropAll(t.countedOfferings(dc, pool))
		}
	}
}

// keepingClosed is what a launch with the requirements must also require to open no domain: values that
// some node or launch has, or with which the spread does not look at the node.
func (t *topology) keepingClosed(reqs *nodeRequirements, pool *poolState) constraint.Set {
	t.inCountedDomains(pool)
	var out constraint.Set
	for _, dc := range pool.openCounts {
		q, ok := reqs.get(dc.key)
		if !ok || q.AdmitsAbsent() || !t.countedOfferings(dc, pool).Intersects(reqs.rows) {
			continue
		}
		var closed bitset.Set
		for _, v := range t.choices(dc, q) {
			if !t.opens(dc, pool, reqs.set(), v) {
				closed.Put(v)
			}
		}
		out = out.With(dc.key.Among(closed))
	}
	return out
}

// keepingPlaces returns the offerings of which a node for a pod of the shape opens no domain but such that
// may be empty.
func (t *topology) keepingPlaces(pool *poolState, shape *cluster.PodShape) bitset.Set {
	cached, counts, mayOpenEmpty := pool.inCountedDomains, pool.openCounts, t.mayOpenEmpty
	pool.inCountedDomains, t.mayOpenEmpty = nil, true
	defer func() { pool.inCountedDomains, pool.openCounts, t.mayOpenEmpty = cached, counts, mayOpenEmpty }()
	var out bitset.Set
	for i, rows := range pool.Compatible(shape).Fitting {
		reqs := &nodeRequirements{labelRequirements: ofPool(pool.NodeRequirements.And(shape.Alternatives[i])), rows: rows}
		if _, impossible := reqs.set().And(t.keepingClosed(reqs, pool)).Impossible(); !impossible {
			out.Merge(rows.And(t.inCountedDomains(pool)))
		}
	}
	return out
}

// choices lists the values that a launch may have of the domain count's label: all that the requirement
// admits or, where these are without number, those of them that some node or launch has.
func (t *topology) choices(dc *domainCount, q constraint.Requirement) []int {
	var out []int
	if names, finite := q.Values(); finite {
		for _, name := range names {
			out = append(out, dc.key.ID(name))
		}
		return out
	}
	out = slices.AppendSeq(out, maps.Keys(dc.domains))
	out = append(out, t.launchedDomains(dc)...)
	return slices.DeleteFunc(out, func(v int) bool { return !q.Admits(v) })
}

// opens reports whether a launch with the label requirements and the value would open a domain of the
// count.
func (t *topology) opens(dc *domainCount, pool *poolState, set constraint.Set, v int) bool {
	if t.hasDomain(dc, v) {
		return false
	}
	there := ofPool(set.With(dc.key.Only(v)))
	return dc.filter.admits(&launch{pool: pool, requirements: &nodeRequirements{labelRequirements: there}})
}
