// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"cmp"
	"math"
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
)

// allotment is pods of one pod group that nodes are to be launched for in one cell; a nil
// cell leaves the domain open.
type allotment struct {
	group      *podGroup
	cell       *cell
	wanted     int // pods assigned to the allotment
	placed     int
	dropped    int         // pods that were assigned, found no capacity, and dropped a preference
	shapeGroup *shapeGroup // while launching
	inFilling  int         // while filling one node
}

func (a *allotment) left() int { return a.wanted - a.placed }

// cell is one combination of values of the labels over which a pod group is constrained.
type cell struct {
	cluster.Cell
	name      string // for messages, and for order
	key       string // differs for cells over different labels
	partition string // of every node in the cell
	in        []bool // by spread filter of the group: whether its constraint looks at the cell
	set       constraint.Set
	hosts     []nodeRange    // slots of the nodes that accept the group
	price     offering.Price // of the cheapest offering there; negative when none is available
	cap       int            // how many pods launches there take; negative: unknown
	want      int            // how many pods nodes are to be launched for there
}

// assign places pod groups on nodes where they fit, and assigns the other pods to cells where
// nodes are to be launched for them. Pods with required pod affinity wait until the pods that
// they join have a place; pods that still wait in the end drop a preference, if they have
// one. assign also returns the groups together with those that this made.
func (s *solver) assign(group []*podGroup) ([]*allotment, []*podGroup) {
	var allotments []*allotment
	all, open := slices.Clone(group), slices.Clone(group)
	for {
		progress := false
		var waiting []*podGroup
		for _, g := range open {
			before := g.placed + g.allotted
			allotments = append(allotments, s.assignGroup(g)...)
			progress = progress || g.placed+g.allotted > before
			if g.left() > 0 && g.hasAffinity() {
				waiting = append(waiting, g)
			}
		}
		if progress && len(waiting) > 0 {
			open = waiting
			continue
		}
		softer := s.relaxAll(all)
		if len(softer) == 0 {
			return allotments, all
		}
		all = append(all, softer...)
		open = append(slices.DeleteFunc(waiting, func(g *podGroup) bool { return g.left() == 0 }), softer...)
	}
}

// hasAffinity reports whether the group's pods must join other pods.
func (g *podGroup) hasAffinity() bool {
	return slices.ContainsFunc(g.domainRules, func(r domainRule) bool { return r.kind == joins })
}

// assignGroup finds places for one pod group.
func (s *solver) assignGroup(g *podGroup) []*allotment {
	if len(g.domainKeys) == 0 {
		s.nodes.fill(g)
		return g.allot(nil, g.left())
	}
	cells := s.cells.find(g)
	g.cells = cells
	for g.left() > 0 {
		best := s.bestCell(g, cells)
		if best == nil {
			break
		}
		i := s.nodes.hostIn(g, best)
		g.count(best, 1)
		if i >= 0 {
			s.nodes.nominate(g, i, 1)
		} else {
			best.want++
			g.allotted++
		}
	}
	var allotments []*allotment
	for _, c := range cells {
		g.allotted -= c.want
		allotments = append(allotments, g.allot(c, c.want)...)
	}
	return allotments
}

// promise makes an allotment of n pods.
func (g *podGroup) allot(c *cell, n int) []*allotment {
	if n == 0 {
		return nil
	}
	g.allotted += n
	return []*allotment{{group: g, cell: c, wanted: n}}
}

// count adds n pods of the group to the counts of the cell's domains.
func (g *podGroup) count(c *cell, n int) {
	for _, b := range g.domainIncrements {
		if v := c.Values[b.axis]; v >= 0 && c.counts(b) {
			b.count.counts[v] += n
			b.count.total += n
		}
	}
}

// counts reports whether the domain count looks at nodes of the cell.
func (c *cell) counts(b increment) bool {
	if b.filter >= 0 && !c.in[b.filter] {
		return false
	}
	for _, key := range b.count.keys {
		for i, had := range c.Keys {
			if had == key && c.Values[i] < 0 {
				return false
			}
		}
	}
	return true
}

// bestCell picks the cell for the next pod: first one where a node has free capacity, then
// the emptiest, then one where a node is to be launched already, then the cheapest.
func (s *solver) bestCell(g *podGroup, cells []*cell) *cell {
	var best *cell
	for _, c := range cells {
		if !g.allowed(c, cells) || !s.nodes.hasRoom(g, c) {
			continue
		}
		if best == nil || s.nodes.better(g, c, best) {
			best = c
		}
	}
	return best
}

func (s *nodes) hasRoom(g *podGroup, c *cell) bool {
	return s.hostIn(g, c) >= 0 || c.price >= 0 && (c.cap < 0 || c.want < c.cap)
}

func (s *nodes) better(g *podGroup, a, b *cell) bool {
	onA, onB := s.hostIn(g, a) >= 0, s.hostIn(g, b) >= 0
	if onA != onB {
		return onA
	}
	if c := cmp.Compare(g.spreadCount(a), g.spreadCount(b)); c != 0 {
		return c < 0
	}
	if (a.want > 0) != (b.want > 0) && !g.spreads() {
		return a.want > 0
	}
	if !onA && a.price != b.price {
		return a.price < b.price
	}
	return a.name < b.name
}

// spreads reports whether the group has a spread constraint over domains.
func (g *podGroup) spreads() bool {
	return slices.ContainsFunc(g.domainRules, func(r domainRule) bool { return r.kind == spreads })
}

// ahead is how many pods of k a node with pods of o may get when pods of o count for a spread
// of k. Pods of k may have been assigned before those of o and then have to be bound before
// them, so they must not keep pods of o off the node.
func (g *podGroup) besideEarlier(o *podGroup, count func(int) int) int {
	if o == g || !slices.ContainsFunc(g.domainRules, func(r domainRule) bool { return r.kind == spreads && !r.soft && r.count.of.counts(o.class) }) {
		return math.MaxInt32
	}
	return o.nodeRules.beside(&g.nodeRules, count)
}

// spreadCount sums up what the group's spread constraints count in the cell.
func (g *podGroup) spreadCount(c *cell) int {
	n := 0
	for i := range g.domainRules {
		if r := &g.domainRules[i]; r.kind == spreads {
			n += r.count.counts[c.Values[r.axis]]
		}
	}
	return n
}

func (g *podGroup) allowed(c *cell, cells []*cell) bool {
	for i := range g.domainRules {
		r := &g.domainRules[i]
		var universe []int
		if r.kind == spreads {
			universe = usable(cells, r.axis)
		}
		if !r.allows(c.Values[r.axis], universe) {
			return false
		}
	}
	return true
}

// usable lists the values of the axis for which pods can be in some cell.
func usable(cells []*cell, axis int) []int {
	var out []int
	for _, c := range cells {
		if v := c.Values[axis]; v >= 0 && c.opens() && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// opens reports whether pods of the group can be in the cell at all.
func (c *cell) opens() bool { return c.price >= 0 && c.cap != 0 || len(c.hosts) > 0 }

// hostIn returns the index of the cell's first node that takes one more pod; -1 if there is
// none.
func (s *nodes) hostIn(g *podGroup, c *cell) int {
	for len(c.hosts) > 0 {
		if i := s.next(g, &c.hosts[0]); i >= 0 {
			return i
		}
		c.hosts = c.hosts[1:]
	}
	return -1
}
