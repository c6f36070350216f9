package schedule

import (
	"cmp"
	"math"
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
)

// allotment is pods of one class that are to be bought room for in one cell; a nil
// cell leaves the place open.
type allotment struct {
	*podGroup
	cell       *cell
	want       int // pods assigned to the part
	placed     int
	short      int         // pods that were assigned, found no room, and gave something up
	shapeGroup *shapeGroup // while buying
	taken      int         // while filling one machine
}

func (p *allotment) left() int { return p.want - p.placed }

// cell is a choice of value for each label over which a class is constrained.
type cell struct {
	cluster.Cell
	name      string // for people, and for order
	key       string // tells cells over different labels apart
	partition string // of every node in the cell
	in        []bool // by sieve of the class: whether its constraint looks at the cell
	set       constraint.Set
	hosts     []nodeRange    // where hosts that take the class are to be found
	price     offering.Price // of the cheapest row there; negative when nothing is on sale
	cap       int            // how many may be bought there; negative means no limit is known
	want      int            // how many are to be bought there
}

// assign places a group's pods on hosts where they fit, and says of the others
// where room is to be bought for them. Pods that follow others wait until those
// have a place; what still waits in the end gives up what it prefers, if there is
// anything. It also returns the group with the work that this made.
func (s *solver) assign(group []*podGroup) ([]*allotment, []*podGroup) {
	var parts []*allotment
	all, open := slices.Clone(group), slices.Clone(group)
	for {
		progress := false
		var waiting []*podGroup
		for _, k := range open {
			before := k.placed + k.promised
			parts = append(parts, s.assignGroup(k)...)
			progress = progress || k.placed+k.promised > before
			if k.left() > 0 && k.hasAffinity() {
				waiting = append(waiting, k)
			}
		}
		if progress && len(waiting) > 0 {
			open = waiting
			continue
		}
		softer := s.relaxAll(all)
		if len(softer) == 0 {
			return parts, all
		}
		all = append(all, softer...)
		open = append(slices.DeleteFunc(waiting, func(k *podGroup) bool { return k.left() == 0 }), softer...)
	}
}

// follows reports whether the class must join others.
func (k *podGroup) hasAffinity() bool {
	return slices.ContainsFunc(k.rules, func(r domainRule) bool { return r.kind == joins })
}

// singleValue finds places for one class.
func (s *solver) assignGroup(k *podGroup) []*allotment {
	if len(k.keys) == 0 {
		s.fillNodes(k)
		return k.promise(nil, k.left())
	}
	cells := s.cells(k)
	k.cells = cells
	for k.left() > 0 {
		best := s.bestCell(k, cells)
		if best == nil {
			break
		}
		i := s.hostIn(k, best)
		k.count(best, 1)
		if i >= 0 {
			s.nominate(k, i, 1)
		} else {
			best.want++
			k.promised++
		}
	}
	var parts []*allotment
	for _, c := range cells {
		k.promised -= c.want
		parts = append(parts, k.promise(c, c.want)...)
	}
	return parts
}

// promise makes a part of n pods.
func (k *podGroup) promise(c *cell, n int) []*allotment {
	if n == 0 {
		return nil
	}
	k.promised += n
	return []*allotment{{podGroup: k, cell: c, want: n}}
}

// count notes n pods of the class in the cell's domains.
func (k *podGroup) count(c *cell, n int) {
	for _, b := range k.increments {
		if v := c.Values[b.axis]; v >= 0 && c.counts(b) {
			b.count.counts[v] += n
			b.count.total += n
		}
	}
}

// counts reports whether the tally looks at nodes of the cell.
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

// bestCell picks the cell for the next pod: where a host has room, then the
// emptiest, then where something is bought already, then the cheapest.
func (s *solver) bestCell(k *podGroup, cells []*cell) *cell {
	var best *cell
	for _, c := range cells {
		if !k.allowed(c, cells) || !s.hasRoom(k, c) {
			continue
		}
		if best == nil || s.better(k, c, best) {
			best = c
		}
	}
	return best
}

func (s *solver) hasRoom(k *podGroup, c *cell) bool {
	return s.hostIn(k, c) >= 0 || c.price >= 0 && (c.cap < 0 || c.want < c.cap)
}

func (s *solver) better(k *podGroup, a, b *cell) bool {
	onA, onB := s.hostIn(k, a) >= 0, s.hostIn(k, b) >= 0
	if onA != onB {
		return onA
	}
	if c := cmp.Compare(k.spreadCount(a), k.spreadCount(b)); c != 0 {
		return c < 0
	}
	if (a.want > 0) != (b.want > 0) && !k.spreads() {
		return a.want > 0
	}
	if !onA && a.price != b.price {
		return a.price < b.price
	}
	return a.name < b.name
}

// evens reports whether the class has a spread constraint over domains.
func (k *podGroup) spreads() bool {
	return slices.ContainsFunc(k.rules, func(r domainRule) bool { return r.kind == spreads })
}

// ahead is how many pods of the class a machine with pods of another may get when those
// count for a spread of the class: its pods may have been assigned, and so have to be
// bound, before them, and must not be in their way then.
func (k *podGroup) ahead(o *podGroup, count func(int) int) int {
	if o == k || !slices.ContainsFunc(k.rules, func(r domainRule) bool { return r.kind == spreads && !r.soft && r.count.of.counts(o.PodClass) }) {
		return math.MaxInt32
	}
	return o.nodeRules.beside(&k.nodeRules, count)
}

// crowding sums what the class's spread constraints count in the cell.
func (k *podGroup) spreadCount(c *cell) int {
	n := 0
	for i := range k.rules {
		if r := &k.rules[i]; r.kind == spreads {
			n += r.count.counts[c.Values[r.axis]]
		}
	}
	return n
}

func (k *podGroup) allowed(c *cell, cells []*cell) bool {
	for i := range k.rules {
		r := &k.rules[i]
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

// usable lists the values for which a cell exists or could come to be.
func usable(cells []*cell, axis int) []int {
	var out []int
	for _, c := range cells {
		if v := c.Values[axis]; v >= 0 && c.opens() && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// opens reports whether pods of the class can be in the cell at all.
func (c *cell) opens() bool { return c.price >= 0 && c.cap != 0 || len(c.hosts) > 0 }

// hostIn returns the first host of the cell that takes one more pod, -1 for none.
func (s *solver) hostIn(k *podGroup, c *cell) int {
	for len(c.hosts) > 0 {
		if i := s.next(k, &c.hosts[0]); i >= 0 {
			return i
		}
		c.hosts = c.hosts[1:]
	}
	return -1
}
