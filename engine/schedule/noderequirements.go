// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
)

// nodeRequirements is what the pods on one node require together: their label requirements,
// and the offerings on which all of them hold. They are interned per round: nodes that
// require the same share one.
type nodeRequirements struct {
	*labelRequirements
	rows bitset.Set
	// matching are the offerings that meet set, choosable those of them that may be chosen after so
	// many recounts of the domains. Both are computed when first needed.
	matching, choosable bitset.Set
	choosableAt         int
	available           bitset.Set      // see largeEnough
	minValuesTrials     minValuesTrials // see leavesEnough
}

// joinedKey names a pod shape joining a node.
type joinedKey struct {
	from        *nodeRequirements
	pool        *cluster.PoolCatalog
	shape       *cluster.PodShape
	cell        string
	alternative int
	row         int // -1 where the result is the same for all offerings
}

// internedKey names a set of offerings and the hash of label requirements.
type internedKey struct {
	rows   string
	labels uint64
}

// requirementSets interns the nodeRequirements of a round, and caches how pod shapes join
// them.
type requirementSets struct {
	topology *topology
	joined   map[joinedKey]*nodeRequirements // nil where they cannot hold together
	interned map[internedKey][]*nodeRequirements
	key      []byte     // scratch: of a set of offerings
	common   bitset.Set // scratch: see joinNew
}

func newRequirementSets() requirementSets {
	return requirementSets{joined: map[joinedKey]*nodeRequirements{}, interned: map[internedKey][]*nodeRequirements{}}
}

// join adds the requirements of an allotment on the given offering. It takes the first of the
// shape's alternatives that holds there together with the others. While launches may open no domain,
// it leaves only values of labels with which they open none.
func (rs *requirementSets) join(reqs *nodeRequirements, pool *poolState, row int, f *cluster.CompatibleOfferings, a *allotment) (*nodeRequirements, bool) {
	for i, alt := range a.group.shape.Alternatives {
		if !f.Fitting[i].Has(row) {
			continue
		}
		if len(alt) == 0 && a.cell == nil && !f.AnyPortTaken {
			next := rs.closed(reqs, pool, row)
			return next, next != nil
		}
		at := joinedKey{from: reqs, pool: pool.PoolCatalog, shape: a.group.shape, alternative: i, row: -1}
		if a.cell != nil {
			at.cell = a.cell.key
		}
		if pool.AnyFlexible(row) && pool.choosesLabel(row, alt, a.cell) {
			at.row = row
		}
		next, known := rs.joined[at]
		if !known {
			added := alt
			if a.cell != nil {
				added = alt.And(a.cell.set)
			}
			next = rs.joinNew(reqs, pool, row, added, f.Admitted[i])
			rs.joined[at] = next
		}
		if next = rs.closed(next, pool, row); next != nil {
			return next, true
		}
	}
	return nil, false
}

// closed narrows the requirements so that their launch opens no domain, while it may open none. It returns
// nil when they cannot hold then.
func (rs *requirementSets) closed(reqs *nodeRequirements, pool *poolState, row int) *nodeRequirements {
	if reqs == nil || !rs.topology.mustNotOpenDomains {
		return reqs
	}
	if added := rs.topology.keepingClosed(reqs, pool); len(added) > 0 {
		return rs.joinNew(reqs, pool, row, added, reqs.rows)
	}
	return reqs
}

// lastJoined is how a shape group last joined a node. Where most pods have the same requirements,
// the next node that is filled asks the same again, for each of as many shape groups as there are
// pods.
type lastJoined struct {
	from, next *nodeRequirements
	pool       *poolState
}

// joinGroup is join for a shape group that joins the pods on the candidate, which suits it.
func (rs *requirementSets) joinGroup(cand *candidate, sg *shapeGroup, a *allotment) (*nodeRequirements, bool) {
	f, last := sg.compatible[cand.group.poolKind], &sg.lastJoined
	if alts := sg.shape.Alternatives; len(alts) != 1 || cand.pool.AnyFlexible(cand.row) && cand.pool.choosesLabel(cand.row, alts[0], a.cell) {
		return rs.join(cand.requirements, cand.pool, cand.row, f, a)
	}
	if last.from != cand.requirements || last.pool != cand.pool {
		next, _ := rs.join(cand.requirements, cand.pool, cand.row, f, a)
		*last = lastJoined{from: cand.requirements, next: next, pool: cand.pool}
	}
	return last.next, last.next != nil
}

// joinNew adds requirements that hold on the admitted offerings. It returns nil when they and
// those of the other pods cannot hold together.
func (rs *requirementSets) joinNew(reqs *nodeRequirements, pool *poolState, row int, added constraint.Set, admitted bitset.Set) *nodeRequirements {
	before := reqs.on(added)
	joined, ok := pool.JoinRequirements(row, before, added)
	if !ok {
		return nil
	}
	rs.common.Copy(reqs.rows)
	rs.common.Keep(admitted)
	return rs.intern(reqs.with(before, joined), rs.common)
}

// choosesLabel reports whether a launch of the offering may choose between values of some
// label that matters to the alternative or the cell.
func (pool *poolState) choosesLabel(row int, alt constraint.Set, c *cell) bool {
	for _, q := range alt {
		if pool.Catalog.Flexible(row, q.Key) {
			return true
		}
	}
	if c == nil {
		return false
	}
	for _, k := range c.Keys {
		if pool.Catalog.Flexible(row, k) {
			return true
		}
	}
	return false
}

// intern returns the nodeRequirements with those label requirements and offerings, the same one
// each time. It copies rows.
func (rs *requirementSets) intern(labels *labelRequirements, rows bitset.Set) *nodeRequirements {
	rs.key = rows.Append(rs.key[:0])
	alike := rs.interned[internedKey{string(rs.key), labels.hash}]
	for _, reqs := range alike {
		if reqs.labelRequirements.equal(labels) {
			return reqs
		}
	}
	reqs := &nodeRequirements{labelRequirements: labels, rows: rows.Clone()}
	rs.interned[internedKey{string(rs.key), labels.hash}] = append(alike, reqs)
	return reqs
}
