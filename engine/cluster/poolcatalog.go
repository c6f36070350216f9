// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"encoding/binary"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/reason"
)

// PoolCatalog is a pool together with the offerings it can launch: the offerings of the node
// class's catalog with the labels of this pool's nodes and less the overhead of DaemonSets.
type PoolCatalog struct {
	Pool    NodePool
	Catalog *offering.Catalog
	// Base are the requirements and labels that every node of the pool has.
	Base constraint.Set
	// Offerings are the offerings that meet Base.
	Offerings bitset.Set
	// Allocatable[i] is what pods can use of a node launched from offering i; DaemonOverhead[i]
	// is what the DaemonSets that match such a node take before.
	Allocatable, DaemonOverhead []quantity.Vector
	// Left is the part of the pool's limits that nodes and NodeClaims have not taken yet. Only
	// the resources in Limited count.
	Left    quantity.Vector
	Limited []quantity.Dim
	// Uncounted are the limits on resources without a position. Instance types that have any of
	// such a resource are not launched, because nothing counts how much of it there may be.
	Uncounted []Uncounted
	// NodesLeft is how many more nodes the pool may have; negative means no limit.
	NodesLeft int
	// MinValues are the labels with minValues, in the order of the pool's requirements.
	MinValues []MinValues

	ladders [quantity.Dims]*ladder
	cells   map[string][]CellOfferings
	taken   []portsTaken // host ports that DaemonSets take
	laid    layout
}

// Uncounted is a limit on a resource without a position, and the offerings that it rules
// out: those with any of the resource, or all when the limit is exceeded already.
type Uncounted struct {
	Limit string
	Left  int64
	Rows  bitset.Set
}

// layout identifies what DaemonSets take of a catalog's offerings. Pools with the same
// layout share Allocatable and DaemonOverhead, because many pools launch from one large
// catalog.
type layout struct {
	catalog *offering.Catalog
	daemons string // each with the offerings on which it runs
}

// poolCatalog compiles the PoolCatalog of one pool, which shares Allocatable and DaemonOverhead with
// a pool in laid that has the same layout. A pool whose node class has no catalog has no
// offerings.
func (b *Builder) poolCatalog(p NodePool, laid map[layout]*PoolCatalog) *PoolCatalog {
	m := &PoolCatalog{Pool: p, Catalog: b.catalogs[p.Class].compiled, cells: map[string][]CellOfferings{}}
	if m.Catalog == nil {
		m.Catalog = offering.Compile(b.space, b.resources, nil)
		m.block(reason.NodePoolNotReady, faultf(map[string]any{"class": p.Class}, "no offering is known for node class %q yet", p.Class))
	}
	base, err := b.space.Set(p.Requirements)
	if err != nil {
		m.block(reason.NodePoolNotReady, err)
	}
	for key, value := range p.Labels {
		base = base.With(b.space.In(key, value))
	}
	base = base.With(b.space.In(LabelPool, p.Name))
	// The name of a node that is not launched yet is unknown, so no pod can require it.
	base = base.With(b.space.In(LabelHostname, ""))
	m.Base = base
	if q, bad := base.Impossible(); bad {
		m.block(reason.NodePoolNotReady, faultf(map[string]any{"key": q.Key.Name}, "its own requirements and labels contradict each other on %s", q.Key.Name))
	}
	m.Offerings = m.admitted(base, base)
	m.varied(b.space, p.Requirements)
	m.layDaemons(b, laid)
	return m
}

// block keeps the pool from launching nodes, unless it is blocked already.
func (m *PoolCatalog) block(because reason.Reason, why error) {
	if m.Pool.Blocked == "" {
		m.Pool.Blocked, m.Pool.BlockedDetail, m.Pool.BlockedFacts = because, why.Error(), factsOf(why)
	}
}

// admitted returns the offerings that can meet the narrowed requirements. It looks only at
// the keys of touched.
func (m *PoolCatalog) admitted(narrowed, touched constraint.Set) bitset.Set {
	rows := bitset.Upto(len(m.Catalog.Offerings))
	for _, t := range touched {
		q, _ := narrowed.Get(t.Key)
		if m.Catalog.HasLabel(t.Key) {
			rows = rows.And(m.Catalog.Matching(q))
			continue
		}
		if _, own := m.Base.Get(t.Key); own {
			// The pool itself gives its nodes this label.
			if !q.Possible() {
				return nil
			}
			continue
		}
		if !q.AdmitsAbsent() {
			return nil
		}
	}
	return rows
}

// layDaemons subtracts the overhead of DaemonSets from every offering, and notes the host
// ports that they take there. Which DaemonSets match may differ from offering to offering
// (architecture, GPU, zone), so the overhead is exact per offering.
func (m *PoolCatalog) layDaemons(b *Builder, laid map[layout]*PoolCatalog) {
	type overhead struct {
		*daemon
		rows bitset.Set
	}
	var all []overhead
	var key []byte
	for _, d := range b.sortedDaemons() {
		if _, ok := Tolerates(d.tolerations, m.Pool.Taints); !ok {
			continue
		}
		rows := m.admittedByAny(d.alternatives)
		all = append(all, overhead{d, rows})
		words := rows.Append(nil)
		key = append(append(key, d.UID...), 0)
		key = append(binary.AppendUvarint(key, uint64(len(words))), words...)
		if len(d.Ports) > 0 {
			m.taken = append(m.taken, portsTaken{d.Ports, rows})
		}
	}
	m.laid = layout{m.Catalog, string(key)}
	if like := laid[m.laid]; like != nil {
		m.Allocatable, m.DaemonOverhead = like.Allocatable, like.DaemonOverhead
		return
	}
	m.Allocatable = make([]quantity.Vector, len(m.Catalog.Offerings))
	m.DaemonOverhead = make([]quantity.Vector, len(m.Catalog.Offerings))
	for _, o := range all {
		for i := range o.rows.All() {
			m.DaemonOverhead[i] = m.DaemonOverhead[i].Add(o.requests)
		}
	}
	for i, r := range m.Catalog.Offerings {
		m.Allocatable[i] = m.Catalog.Allocatable[r.Type].Sub(m.DaemonOverhead[i])
	}
	laid[m.laid] = m
}

// admittedByAny is anyAlternative for all offerings, including those that the pool may not
// launch.
func (m *PoolCatalog) admittedByAny(alternatives []constraint.Set) bitset.Set {
	var rows bitset.Set
	for _, alt := range alternatives {
		rows.Merge(m.admitted(m.Base.And(alt), alt))
	}
	return rows
}

func (m *PoolCatalog) anyAlternative(alternatives []constraint.Set) bitset.Set {
	return m.admittedByAny(alternatives).And(m.Offerings)
}

// Compatible is which offerings of one pool fit one pod shape, before limits and
// availability.
type Compatible struct {
	// Fitting[i] are the offerings on which Alternatives[i] of the shape holds and one pod fits.
	// Admitted[i] are those on which it holds and no DaemonSet takes the shape's host ports,
	// whatever their capacity.
	Fitting, Admitted []bitset.Set
	// PortsTaken is set when host ports of DaemonSets keep the shape off some offerings.
	PortsTaken bool
	// All is the union of Fitting.
	All bitset.Set
}

// Compatible computes, once per shape and pool, which offerings fit the shape.
func (m *PoolCatalog) Compatible(c *PodShape) *Compatible {
	if f, ok := c.fits[m]; ok {
		return f
	}
	f := m.fit(c)
	c.fits[m] = f
	return f
}

func (m *PoolCatalog) fit(c *PodShape) *Compatible {
	f := &Compatible{Fitting: make([]bitset.Set, len(c.Alternatives)), Admitted: make([]bitset.Set, len(c.Alternatives))}
	if _, ok := tolerates(c.Tolerations, m.Pool.Taints, c.AvoidSoft); !ok {
		return f
	}
	asked := c.aloneVector()
	holding := m.WithRoom(&asked)
	taken := m.portsTakenFrom(c)
	f.PortsTaken = !taken.Empty()
	for i, alt := range c.Alternatives {
		f.Admitted[i] = m.admitted(m.Base.And(alt), alt).And(m.Offerings).Minus(taken)
		f.Fitting[i] = f.Admitted[i].And(holding)
		f.All.Merge(f.Fitting[i])
	}
	return f
}

// Join adds the requirements of one more class to those of the pods that a node of offering
// i holds already. It reports false when both cannot hold on one node.
func (m *PoolCatalog) Join(i int, joint, more constraint.Set) (constraint.Set, bool) {
	out := joint.And(more)
	for _, t := range more {
		q, _ := out.Get(t.Key)
		switch {
		case m.Catalog.Flexible(i, t.Key):
			if !m.Catalog.Matches(i, q) {
				return nil, false
			}
		case m.Catalog.HasLabel(t.Key):
			// The offering has one value, which every pod admitted to it accepts.
		case !q.Possible():
			return nil, false
		}
	}
	return out, true
}

// Matching returns the pool's offerings on which the node requirements hold.
func (m *PoolCatalog) Matching(joint constraint.Set) bitset.Set {
	return m.admitted(joint, joint).And(m.Offerings)
}

// Admitting returns the offerings that meet the shape's requirements and whose nodes have
// its host ports free, whatever their capacity.
func (m *PoolCatalog) Admitting(c *PodShape) bitset.Set {
	var rows bitset.Set
	for _, admitted := range m.Compatible(c).Admitted {
		rows.Merge(admitted)
	}
	return rows
}

// MatchingBoth returns the offerings on which one of the shape's alternatives can hold
// together with more.
func (m *PoolCatalog) MatchingBoth(c *PodShape, more constraint.Set) bitset.Set {
	var rows bitset.Set
	for _, alt := range c.Alternatives {
		both := alt.And(more)
		rows.Merge(m.admitted(m.Base.And(both), both).And(m.Offerings))
	}
	return rows
}

// MatchingOwn returns the offerings that meet the shape's own node selector and affinity.
// They must not be changed.
func (m *PoolCatalog) MatchingOwn(c *PodShape) bitset.Set {
	rows, ok := c.met[m]
	if !ok {
		rows = m.anyAlternative(c.own)
		c.met[m] = rows
	}
	return rows
}

// AnyFlexible reports whether the launch of offering i may choose between values of some
// label.
func (m *PoolCatalog) AnyFlexible(i int) bool { return m.Catalog.AnyFlexible(i) }
