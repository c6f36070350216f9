// SPDX-License-Identifier: Apache-2.0

package quantity

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Space assigns resources their positions in Vectors. The base resources always have theirs.
// An extended resource has one while a catalog or a node offers it and a pod, a DaemonSet or
// a NodePool limit asks for it: a name that only a pod mentions takes none.
//
// Positions follow the names of the resources, so they do not depend on the order of events.
// When there are more resources than positions, attach limits of CSI drivers come first,
// then resources that catalogs offer, then resources that only nodes offer, each in order of
// their names. The remaining resources count as Unoffered.
//
// Offers and requests are counted as they arrive; positions change only in Settle. The zero
// Space is not usable; see NewSpace.
type Space struct {
	names   []string       // by position
	slots   map[string]Dim // by name; a resource keeps its position while there are enough
	attach  []Dim          // positions of attach limits
	version int            // increases whenever names changes

	// at is where requests for a resource count since the last Settle: at its position, or at
	// Unoffered. For resources that are not in it: attached volumes have no limit on any node,
	// and all others count as Unoffered.
	at map[string]Dim

	uses      map[string]use
	live      map[string]rank // resources that need a position
	unsettled bool            // live has changed
}

// Source is the kind of object that offers a resource.
type Source int

// The sources of resources.
const (
	Catalogs Source = iota
	Nodes
	sources
)

// use counts the offers of a resource by source, and the requests for it.
type use struct {
	offers [sources]int
	asks   int
}

// rank orders resources when positions are short; none means that a resource needs no
// position.
type rank int

const (
	none rank = iota
	ofDriver
	ofCatalog
	ofNode
)

// NewSpace returns a Space with only the base resources.
func NewSpace() *Space {
	s := &Space{at: map[string]Dim{}, uses: map[string]use{}, live: map[string]rank{}}
	s.assign(nil)
	return s
}

// assign gives positions to the extended resources, which must be sorted.
func (s *Space) assign(extended []string) {
	s.names = append([]string{NameCPU, NameMemory, NameStorage, NamePods, ""}, extended...)
	s.slots, s.attach = map[string]Dim{}, nil
	for d, name := range s.names {
		s.slots[name] = Dim(d)
		if attachable(name) {
			s.attach = append(s.attach, Dim(d))
		}
	}
	delete(s.slots, "")
	s.version++
}

func attachable(name string) bool { return strings.HasPrefix(name, Attachable) }

// IsExtended reports whether the resource is an extended one, which not every node has.
func IsExtended(name string) bool {
	switch name {
	case NameCPU, NameMemory, NameStorage, NamePods, NameNodes:
		return false
	}
	return true
}

// Offer adds the offers of one instance type or node (by is 1), or removes them (by is -1).
// An attach limit counts even if it is zero: without a limit, the number of volumes is not
// limited.
func (s *Space) Offer(from Source, a Amounts, by int) {
	for name, n := range a {
		if IsExtended(name) && (n > 0 || attachable(name)) {
			u := s.uses[name]
			u.offers[from] += by
			s.count(name, u)
		}
	}
}

// Ask adds one request for the resource (by is 1), or removes one (by is -1).
func (s *Space) Ask(name string, by int) {
	if IsExtended(name) {
		u := s.uses[name]
		u.asks += by
		s.count(name, u)
	}
}

// AskAll is Ask for every resource that the amounts name.
func (s *Space) AskAll(a Amounts, by int) {
	for name := range a {
		s.Ask(name, by)
	}
}

func (s *Space) count(name string, u use) {
	s.uses[name] = u
	if u == (use{}) {
		delete(s.uses, name)
	}
	now := u.rank(name)
	if s.live[name] == now {
		return
	}
	s.unsettled = true
	s.live[name] = now
	if now == none {
		delete(s.live, name)
	}
}

func (u use) rank(name string) rank {
	switch {
	case u.asks == 0 || u.offers == [sources]int{}:
		return none
	case attachable(name):
		return ofDriver
	case u.offers[Catalogs] > 0:
		return ofCatalog
	}
	return ofNode
}

// Settle gives positions to the resources that need one. It returns, in order, the resources
// whose requests now count at another position: the Vectors of these requests must be
// computed again. If moved, all Vectors must be.
func (s *Space) Settle() (changed []string, moved bool) {
	if !s.unsettled {
		return nil, false
	}
	s.unsettled = false
	chosen, rest := s.choose()
	if slices.ContainsFunc(chosen, s.lacks) {
		s.assign(s.withIdle(chosen))
		moved = true
	}
	before := s.at
	s.at = map[string]Dim{}
	for _, name := range chosen {
		s.at[name] = s.slots[name]
	}
	for _, name := range rest {
		s.at[name] = Unoffered
	}
	return difference(before, s.at), moved
}

// choose lists the resources that get a position, and those for which there is none left.
func (s *Space) choose() (chosen, rest []string) {
	names := slices.SortedFunc(maps.Keys(s.live), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.live[a], s.live[b]), cmp.Compare(a, b))
	})
	n := min(len(names), Extended)
	return names[:n], names[n:]
}

// lacks reports whether the resource has no position yet.
func (s *Space) lacks(name string) bool {
	_, ok := s.slots[name]
	return !ok
}

// withIdle adds the resources that have a position and do not need it now, if there are
// enough positions. So a device plugin that comes and goes moves no positions.
func (s *Space) withIdle(chosen []string) []string {
	out := slices.Clone(chosen)
	for _, name := range s.names[base:] {
		if !slices.Contains(chosen, name) {
			out = append(out, name)
		}
	}
	if len(out) > Extended {
		out = slices.Clone(chosen)
	}
	slices.Sort(out)
	return out
}

// difference lists the resources whose positions differ between the two.
func difference(before, after map[string]Dim) []string {
	var out []string
	for name, d := range after {
		if was, ok := before[name]; !ok || was != d {
			out = append(out, name)
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// Lookup returns the position of a resource; false when it has none.
func (s *Space) Lookup(name string) (Dim, bool) {
	if !IsExtended(name) {
		d, ok := s.slots[name]
		return d, ok
	}
	d, ok := s.at[name]
	return d, ok && d != Unoffered
}

// Place returns the position at which requests for a resource count: Unoffered when it has
// none of its own. It reports false for volumes that no node limits.
func (s *Space) Place(name string) (Dim, bool) {
	if d, ok := s.Lookup(name); ok {
		return d, true
	}
	return Unoffered, s.Short(name) || !attachable(name)
}

// Short reports whether the resource is offered and asked for, but has no position because
// others come first.
func (s *Space) Short(name string) bool { return s.at[name] == Unoffered }

// OffersFrom reports whether a source of that kind offers the extended resource.
func (s *Space) OffersFrom(from Source, name string) bool { return s.uses[name].offers[from] > 0 }

// Name returns the resource at position d; empty for Unoffered.
func (s *Space) Name(d Dim) string { return s.names[d] }

// Len is the number of positions.
func (s *Space) Len() int { return len(s.names) }

// Version increases whenever positions move.
func (s *Space) Version() int { return s.version }

// Offered converts what a node or instance type provides into a Vector. Resources without a
// position are left out. Attach limits that are not listed are unlimited.
func (s *Space) Offered(a Amounts) Vector {
	var v Vector
	for _, d := range s.attach {
		v[d] = Most
	}
	for name, n := range a {
		if d, ok := s.slots[name]; ok {
			v[d] = clamp(n)
		}
	}
	return v
}

// Asked converts a request into a Vector. Amounts of zero and below are left out.
func (s *Space) Asked(a Amounts) Vector {
	var v Vector
	for name, n := range a {
		if n <= 0 {
			continue
		}
		switch d, counts := s.Place(name); {
		case !counts:
		case d == Unoffered:
			v[d] = 1
		default:
			v[d] = clamp(n)
		}
	}
	return v
}

// Amounts converts v back into Amounts, without zeros and without resources that do not need
// their position now.
func (s *Space) Amounts(v Vector) Amounts {
	a := Amounts{}
	for d, name := range s.names {
		if v[d] == 0 {
			continue
		}
		if _, ok := s.Lookup(name); ok {
			a[name] = v[d]
		}
	}
	return a
}
