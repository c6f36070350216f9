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
	// NodeRequirements are the requirements and labels that every node of the pool has.
	NodeRequirements constraint.Set
	// Offerings are the offerings that meet NodeRequirements.
	Offerings bitset.Set
	// Allocatable[i] is what the pool counts on for pods of a node launched from offering i;
	// DaemonOverhead[i] is what the DaemonSets that match such a node take before. See Room for
	// what the node has.
	Allocatable, DaemonOverhead []quantity.Vector
	// Left is the part of the pool's limits that nodes and NodeClaims have not taken yet. Only
	// the resources in Limited count.
	Left    quantity.Vector
	Limited []quantity.Dim
	// UncountedLimits are the limits on resources without a position. Instance types that
	// have any of such a resource are not launched, because nothing counts how much of it
	// there may be.
	UncountedLimits []UncountedLimit
	// NodesLeft is how many more nodes the pool may have; negative means no limit.
	NodesLeft int
	// MinValues are the labels with minValues, in the order of the pool's requirements.
	MinValues []MinValues

	capacityIndexes *capacityIndexes // of Allocatable
	likeness        poolLikeness
	cells           map[string][]CellOfferings
	daemonPorts     []daemonPorts // host ports that DaemonSets take
	allocatableKey  allocatableKey
}

// allocatableKey identifies what pods can use of a catalog's offerings. Pools with the same
// key share Allocatable with its indexes and DaemonOverhead, because many pools launch from one
// large catalog.
type allocatableKey struct {
	catalog *offering.Catalog
	daemons string // each with the offerings on which it runs
	limited string // the types of which only the sustained cpu counts
}

// newPoolCatalog compiles the catalog of one pool, but for what DaemonSets take. A pool whose
// node class has no instance types has no offerings.
func (ps *nodePools) newPoolCatalog(p NodePool) *PoolCatalog {
	c := &PoolCatalog{Pool: p, Catalog: ps.catalogs[p.NodeClass], cells: map[string][]CellOfferings{}}
	if c.Catalog == nil {
		c.Catalog = offering.Compile(ps.interner, ps.resources, nil)
		c.setBlocked(reason.NodePoolNotReady, manifestErrorf(map[string]any{"nodeClass": p.NodeClass}, "no offering is known for node class %q yet", p.NodeClass))
	}
	base, err := ps.interner.Set(p.Requirements)
	if err != nil {
		c.setBlocked(reason.NodePoolNotReady, err)
	}
	for key, value := range p.Labels {
		base = base.With(ps.interner.In(key, value))
	}
	base = base.With(ps.interner.In(LabelNodePool, p.Name))
	// The name of a node that is not launched yet is unknown, so no pod can require it.
	base = base.With(ps.interner.In(LabelHostname, ""))
	c.NodeRequirements = base
	if q, bad := base.Impossible(); bad {
		c.setBlocked(reason.NodePoolNotReady, manifestErrorf(map[string]any{"key": q.Key.Name}, "its own requirements and labels contradict each other on %s", q.Key.Name))
	}
	c.Offerings = c.meeting(base, base)
	c.compileMinValues(ps.interner, p.Requirements)
	return c
}

// setBlocked keeps the pool from launching nodes, unless it is blocked already.
func (c *PoolCatalog) setBlocked(because reason.Reason, why error) {
	if c.Pool.Blocked == "" {
		c.Pool.Blocked, c.Pool.BlockedDetail, c.Pool.BlockedFacts = because, why.Error(), factsOf(why)
	}
}

// meeting returns the offerings that can meet the narrowed requirements. It looks only at
// the keys of changed.
func (c *PoolCatalog) meeting(narrowed, changed constraint.Set) bitset.Set {
	offerings := bitset.Upto(len(c.Catalog.Offerings))
	for _, t := range changed {
		q, _ := narrowed.Get(t.Key)
		if c.Catalog.HasLabel(t.Key) {
			offerings.Keep(c.Catalog.Matching(q))
			continue
		}
		if _, own := c.NodeRequirements.Get(t.Key); own {
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
	return offerings
}

// meetingToo returns the offerings that can meet the node requirements together with more. It does
// not look at node requirements on other labels, of which there may be many.
func (c *PoolCatalog) meetingToo(more constraint.Set) bitset.Set {
	return c.meeting(c.NodeRequirements.On(more).And(more), more)
}

// subtractDaemons subtracts the overhead of DaemonSets from every offering, and notes the host
// ports that they take there. Which DaemonSets match may differ from offering to offering
// (architecture, GPU, zone), so the overhead is exact per offering. The vectors are those of the
// catalog in shared that has the same allocatableKey; if there is none, the new catalog is
// added.
func (c *PoolCatalog) subtractDaemons(daemons []*daemon, shared map[allocatableKey]*PoolCatalog) {
	type overhead struct {
		*daemon
		offerings bitset.Set
	}
	var all []overhead
	var key []byte
	for _, d := range daemons {
		if _, ok := Tolerates(d.Tolerations, c.Pool.Taints); !ok {
			continue
		}
		offerings := c.offeringsMeetingAny(d.alternatives)
		all = append(all, overhead{d, offerings})
		words := offerings.Append(nil)
		key = append(append(key, d.UID...), 0)
		key = append(binary.AppendUvarint(key, uint64(len(words))), words...)
		if len(d.Ports) > 0 {
			c.daemonPorts = append(c.daemonPorts, daemonPorts{d.Ports, offerings})
		}
	}
	limited := c.limitedToSustainedCPU()
	c.allocatableKey = allocatableKey{c.Catalog, string(key), limitedKey(limited)}
	if same := shared[c.allocatableKey]; same != nil {
		c.Allocatable, c.DaemonOverhead, c.capacityIndexes = same.Allocatable, same.DaemonOverhead, same.capacityIndexes
		return
	}
	c.capacityIndexes = &capacityIndexes{}
	c.Allocatable = make([]quantity.Vector, len(c.Catalog.Offerings))
	c.DaemonOverhead = make([]quantity.Vector, len(c.Catalog.Offerings))
	for _, o := range all {
		for i := range o.offerings.All() {
			c.DaemonOverhead[i] = c.DaemonOverhead[i].Add(o.requests)
		}
	}
	for i, r := range c.Catalog.Offerings {
		room := &c.Catalog.Allocatable[r.Type]
		if limited.Has(r.Type) {
			room = &c.Catalog.Sustained[r.Type]
		}
		c.Allocatable[i] = room.Sub(c.DaemonOverhead[i])
	}
	shared[c.allocatableKey] = c
}

// offeringsMeetingAny is poolOfferingsMeetingAny for all offerings, including those that the pool
// may not launch.
func (c *PoolCatalog) offeringsMeetingAny(alternatives []constraint.Set) bitset.Set {
	var offerings bitset.Set
	for _, alt := range alternatives {
		offerings.Merge(c.meetingToo(alt))
	}
	return offerings
}

func (c *PoolCatalog) poolOfferingsMeetingAny(alternatives []constraint.Set) bitset.Set {
	return c.offeringsMeetingAny(alternatives).And(c.Offerings)
}

// CompatibleOfferings are which offerings of one pool fit one pod shape, before limits and
// availability.
type CompatibleOfferings struct {
	// Fitting[i] are the offerings on which Alternatives[i] of the shape holds and one pod fits.
	// Admitted[i] are those on which it holds and no DaemonSet takes the shape's host ports,
	// whatever their capacity.
	Fitting, Admitted []bitset.Set
	// AnyPortTaken is set when host ports of DaemonSets keep the shape off some offerings.
	AnyPortTaken bool
	// All is the union of Fitting.
	All bitset.Set
}

// Without is f without the offerings.
func (f *CompatibleOfferings) Without(offerings bitset.Set) *CompatibleOfferings {
	out := &CompatibleOfferings{Admitted: f.Admitted, AnyPortTaken: f.AnyPortTaken, All: f.All.Minus(offerings)}
	for _, fitting := range f.Fitting {
		out.Fitting = append(out.Fitting, fitting.Minus(offerings))
	}
	return out
}

// Compatible computes, once per shape for all pools that are alike, which offerings fit the shape.
func (c *PoolCatalog) Compatible(s *PodShape) *CompatibleOfferings {
	c = c.FirstAlike(s.Keys)
	if f, ok := s.compatible[c]; ok {
		return f
	}
	f := c.fit(s)
	s.compatible[c] = f
	return f
}

func (c *PoolCatalog) fit(s *PodShape) *CompatibleOfferings {
	f := &CompatibleOfferings{Fitting: make([]bitset.Set, len(s.Alternatives)), Admitted: make([]bitset.Set, len(s.Alternatives))}
	if _, ok := tolerates(s.Tolerations, c.Pool.Taints, s.AvoidSoft); !ok {
		return f
	}
	requests := s.requestsAloneVector()
	fitting := c.WithCapacity(&requests)
	taken := c.offeringsWithTakenPorts(s)
	f.AnyPortTaken = !taken.Empty()
	for i, alt := range s.Alternatives {
		if len(alt) == 0 && taken.Empty() { // most shapes, of which there may be many
			f.Admitted[i], f.Fitting[i] = c.Offerings, fitting
			continue
		}
		f.Admitted[i] = c.meetingToo(alt).And(c.Offerings).Minus(taken)
		f.Fitting[i] = f.Admitted[i].And(fitting)
	}
	if len(f.Fitting) == 1 {
		f.All = f.Fitting[0]
		return f
	}
	for _, fitting := range f.Fitting {
		f.All.Merge(fitting)
	}
	return f
}

// JoinRequirements adds the requirements of one more class to those of the pods that a node
// of offering i holds already. It reports false when both cannot hold on one node.
func (c *PoolCatalog) JoinRequirements(i int, joint, more constraint.Set) (constraint.Set, bool) {
	out := joint.And(more)
	for _, t := range more {
		q, _ := out.Get(t.Key)
		switch {
		case c.Catalog.Flexible(i, t.Key):
			if !c.Catalog.Matches(i, q) {
				return nil, false
			}
		case c.Catalog.HasLabel(t.Key):
			// The offering has one value, which every pod admitted to it accepts.
		case !q.Possible():
			return nil, false
		}
	}
	return out, true
}

// Matching returns the pool's offerings on which the node requirements hold.
func (c *PoolCatalog) Matching(joint constraint.Set) bitset.Set {
	return c.meeting(joint, joint).And(c.Offerings)
}

// Admitting returns the offerings that meet the shape's requirements and whose nodes have
// its host ports free, whatever their capacity. They must not be changed.
func (c *PoolCatalog) Admitting(s *PodShape) bitset.Set {
	all := c.Compatible(s).Admitted
	if len(all) == 1 {
		return all[0]
	}
	var offerings bitset.Set
	for _, admitted := range all {
		offerings.Merge(admitted)
	}
	return offerings
}

// MatchingBoth returns the offerings on which one of the shape's alternatives can hold
// together with more.
func (c *PoolCatalog) MatchingBoth(s *PodShape, more constraint.Set) bitset.Set {
	var offerings bitset.Set
	for _, alt := range s.Alternatives {
		offerings.Merge(c.meetingToo(alt.And(more)).And(c.Offerings))
	}
	return offerings
}

// MatchingOwn returns the offerings that meet the shape's own node selector and affinity.
// They must not be changed.
func (c *PoolCatalog) MatchingOwn(s *PodShape) bitset.Set {
	offerings, ok := s.matchingOwn[c]
	if !ok {
		offerings = c.poolOfferingsMeetingAny(s.own)
		s.matchingOwn[c] = offerings
	}
	return offerings
}

// AnyFlexible reports whether the launch of offering i may choose between values of some
// label.
func (c *PoolCatalog) AnyFlexible(i int) bool { return c.Catalog.AnyFlexible(i) }
