package cluster

import (
	"encoding/binary"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/reason"
)

// PoolCatalog is a pool together with what it can buy: the catalog's rows as this
// pool's nodes would be, DaemonSets taken off.
type PoolCatalog struct {
	Pool    NodePool
	Catalog *offering.Catalog
	// Base is what every node of the pool will carry.
	Base constraint.Set
	// Rows are those that meet Base.
	Offerings bitset.Set
	// Room is what pods can use of a node bought by row i, and Daemons what the
	// DaemonSets that match it take before.
	Allocatable, DaemonOverhead []quantity.Vector
	// Limits are what the pool may hold in total, and Left what of it is not taken
	// by nodes and claims. Only resources in Limited count.
	Left    quantity.Vector
	Limited []quantity.Dim
	// Uncounted are the limits on resources without a position. Machines that have any of
	// such a resource are not bought, as nothing counts how many of them there may be.
	Uncounted []Uncounted
	// NodesLeft is how many more nodes the pool may have; negative means no limit.
	NodesLeft int
	// Varied are the labels with minValues, in the order of the pool's requirements.
	MinValues []MinValues

	ladders [quantity.Dims]*ladder
	cells   map[string][]CellOfferings
	taken   []portsTaken // by DaemonSets that take host ports
	laid    layout
}

// Uncounted is a limit that no launch may count against, and the rows that would.
type Uncounted struct {
	Limit string
	Left  int64
	Rows  bitset.Set
}

// layout names what DaemonSets take of a catalog's rows. Markets for which it is the
// same share Room and Daemons: many pools buy from one large catalog.
type layout struct {
	catalog *offering.Catalog
	daemons string // each with the rows on which it runs
}

// market compiles one pool, sharing what it can with those that are laid out. A pool whose class has no catalog sells nothing.
func (b *Builder) market(p NodePool, laid map[layout]*PoolCatalog) *PoolCatalog {
	m := &PoolCatalog{Pool: p, Catalog: b.catalogs[p.Class].compiled, cells: map[string][]CellOfferings{}}
	if m.Catalog == nil {
		m.Catalog = offering.Compile(b.space, b.resources, nil)
		m.block(reason.PoolNotReady, faultf(map[string]any{"class": p.Class}, "nothing is known to be on sale for node class %q yet", p.Class))
	}
	base, err := b.space.Set(p.Requirements)
	if err != nil {
		m.block(reason.PoolNotReady, err)
	}
	for key, value := range p.Labels {
		base = base.With(b.space.In(key, value))
	}
	base = base.With(b.space.In(LabelPool, p.Name))
	// A machine that is not bought yet has a name nobody can ask for.
	base = base.With(b.space.In(LabelHostname, ""))
	m.Base = base
	if q, bad := base.Impossible(); bad {
		m.block(reason.PoolNotReady, faultf(map[string]any{"key": q.Key.Name}, "its own requirements and labels contradict each other on %s", q.Key.Name))
	}
	m.Offerings = m.admitted(base, base)
	m.varied(b.space, p.Requirements)
	m.layDaemons(b, laid)
	return m
}

// block keeps the pool from buying, unless something else does already.
func (m *PoolCatalog) block(because reason.Reason, why error) {
	if m.Pool.Blocked == "" {
		m.Pool.Blocked, m.Pool.BlockedDetail, m.Pool.BlockedFacts = because, why.Error(), factsOf(why)
	}
}

// admitted returns the rows that carry whatever the narrowed requirements ask,
// looking only at the keys of touched.
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

// layDaemons takes what DaemonSets will use off every row, and notes the host ports
// that they will hold there. Which of them match
// may differ from row to row (architecture, GPU, zone), so it is exact per row.
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

// admittedByAny is anyAlternative for all rows, whether or not the pool may buy them.
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

// Compatible is what one market can do for one class, before limits and stock.
type Compatible struct {
	// Rows[i] are the rows on which Alternatives[i] of the shape holds and one pod
	// fits; Admitted[i] those on which it holds and no DaemonSet takes the shape's host
	// ports, whatever their room.
	Fitting, Admitted []bitset.Set
	// Shut is set when DaemonSets keep the shape off some rows.
	PortsTaken bool
	// All is the union of Rows.
	All bitset.Set
}

// Compatible computes, once per class and market, where the class can go. A market
// whose pool is blocked fits nothing.
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

// Join adds one more class's requirements to what a node of row i has promised
// already. It reports false when both cannot hold on one node.
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
			// One value per row: whoever was admitted to the row agrees on it.
		case !q.Possible():
			return nil, false
		}
	}
	return out, true
}

// Admitted returns the rows of the market on which the joint requirements hold.
func (m *PoolCatalog) Matching(joint constraint.Set) bitset.Set {
	return m.admitted(joint, joint).And(m.Offerings)
}

// Admitting returns the rows that meet the shape's requirements and have its host
// ports to give, whatever their room.
func (m *PoolCatalog) Admitting(c *PodShape) bitset.Set {
	var rows bitset.Set
	for _, admitted := range m.Compatible(c).Admitted {
		rows.Merge(admitted)
	}
	return rows
}

// Jointly returns the rows on which one of the shape's alternatives can hold
// together with more.
func (m *PoolCatalog) MatchingBoth(c *PodShape, more constraint.Set) bitset.Set {
	var rows bitset.Set
	for _, alt := range c.Alternatives {
		both := alt.And(more)
		rows.Merge(m.admitted(m.Base.And(both), both).And(m.Offerings))
	}
	return rows
}

// Meeting returns the rows that meet the shape's own node selector and affinity.
// They must not be changed.
func (m *PoolCatalog) MatchingOwn(c *PodShape) bitset.Set {
	rows, ok := c.met[m]
	if !ok {
		rows = m.anyAlternative(c.own)
		c.met[m] = rows
	}
	return rows
}

// Several reports whether the launch of row i may choose between values of some label.
func (m *PoolCatalog) AnyFlexible(i int) bool { return m.Catalog.AnyFlexible(i) }
