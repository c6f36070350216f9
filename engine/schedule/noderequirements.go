// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
)

// nodeRequirements is what the pods on one node require together: their label requirements,
// and the offerings on which all of them hold. They are interned per attempt: nodes that
// require the same share one.
type nodeRequirements struct {
	set  constraint.Set
	rows bitset.Set
	// admitted are the offerings that meet set, open those of them that may be chosen. Both
	// are computed when first needed.
	matching, choosable bitset.Set
	available           bitset.Set      // see holding
	minValuesTrials     minValuesTrials // see keeps
}

// joinKey names a pod shape joining a node.
type joinKey struct {
	from        *nodeRequirements
	pool        *cluster.PoolCatalog
	shape       *cluster.PodShape
	cell        string
	alternative int
	row         int // -1 where the result is the same for all offerings
}

// requirementSets interns the nodeRequirements of an attempt, and caches how pod shapes join
// them.
type requirementSets struct {
	joined   map[joinKey]*nodeRequirements // nil where they cannot hold together
	interned map[string][]*nodeRequirements
	key      []byte     // scratch: of a set of offerings
	common   bitset.Set // scratch: see joinAnew
}

func newRequirementSets() requirementSets {
	return requirementSets{joined: map[joinKey]*nodeRequirements{}, interned: map[string][]*nodeRequirements{}}
}

// join adds the requirements of an allotment on the given offering. It takes the first of the
// shape's alternatives that holds there together with the others.
func (s *requirementSets) join(j *nodeRequirements, pool *poolState, row int, f *cluster.Compatible, a *allotment) (*nodeRequirements, bool) {
	for i, alt := range a.group.shape.Alternatives {
		if !f.Fitting[i].Has(row) {
			continue
		}
		if len(alt) == 0 && a.cell == nil && !f.PortsTaken {
			return j, true
		}
		at := joinKey{from: j, pool: pool.PoolCatalog, shape: a.group.shape, alternative: i, row: -1}
		if a.cell != nil {
			at.cell = a.cell.key
		}
		if pool.AnyFlexible(row) && pool.chooses(row, alt, a.cell) {
			at.row = row
		}
		next, known := s.joined[at]
		if !known {
			next = s.joinAnew(j, pool, row, f.Admitted[i], alt, a.cell)
			s.joined[at] = next
		}
		if next != nil {
			return next, true
		}
	}
	return nil, false
}

// joinAnew returns nil when the requirements cannot hold together.
func (s *requirementSets) joinAnew(j *nodeRequirements, pool *poolState, row int, admitted bitset.Set, alt constraint.Set, c *cell) *nodeRequirements {
	more := alt
	if c != nil {
		more = alt.And(c.set)
	}
	set, ok := pool.Join(row, j.set, more)
	if !ok {
		return nil
	}
	s.common.Copy(j.rows)
	s.common.Keep(admitted)
	return s.intern(set, s.common)
}

// chooses reports whether a launch of the offering may choose between values of some label
// that matters to the alternative or the cell.
func (pool *poolState) chooses(row int, alt constraint.Set, c *cell) bool {
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

// intern returns the nodeRequirements of that set and those offerings, the same one each
// time. It copies rows.
func (s *requirementSets) intern(set constraint.Set, rows bitset.Set) *nodeRequirements {
	s.key = rows.Append(s.key[:0])
	for _, j := range s.interned[string(s.key)] {
		if j.set.Equal(set) {
			return j
		}
	}
	j := &nodeRequirements{set: set, rows: rows.Clone()}
	s.interned[string(s.key)] = append(s.interned[string(s.key)], j)
	return j
}
