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
// a NodePool limit requests it: a name that only a pod mentions takes none.
//
// Positions follow the names of the resources, so they do not depend on the order of events.
// When there are more resources than positions, attach limits of CSI drivers come first, then
// resources that catalogs offer, then resources that only nodes offer, each in order of their
// names. The remaining resources count as Unoffered.
//
// Offers and requests are counted as they arrive; positions change only in AssignPositions.
// The zero Space is not usable; see NewSpace.
type Space struct {
	names        []string       // by position
	positions    map[string]Dim // by name; a resource keeps its position while there are enough
	attachLimits []Dim          // positions of attach limits
	version      int            // increases whenever names changes

	// requestPositions is where requests for a resource count since the last AssignPositions:
	// at its position, or at Unoffered. For resources that are not in it: attached volumes
	// have no limit on any node, and all others count as Unoffered.
	requestPositions map[string]Dim

	counts   map[string]counted
	ranks    map[string]rank // resources that need a position
	outdated bool            // ranks has changed
}

// Source is the kind of object that offers a resource.
type Source int

// The sources of resources.
const (
	Catalogs Source = iota
	Nodes
	sources
)

// counted is the number of offers of a resource by source, and of requests for it.
type counted struct {
	offers   [sources]int
	requests int
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
	s := &Space{requestPositions: map[string]Dim{}, counts: map[string]counted{}, ranks: map[string]rank{}}
	s.assign(nil)
	return s
}

// assign gives positions to the extended resources, which must be sorted.
func (s *Space) assign(extended []string) {
	s.names = append([]string{NameCPU, NameMemory, NameStorage, NamePods, ""}, extended...)
	s.positions, s.attachLimits = map[string]Dim{}, nil
	for d, name := range s.names {
		s.positions[name] = Dim(d)
		if attachable(name) {
			s.attachLimits = append(s.attachLimits, Dim(d))
		}
	}
	delete(s.positions, "")
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

// AddOffers adds the offers of one instance type or node (sign is 1), or removes them (sign is -1).
// An attach limit counts even if it is zero: without a limit, the number of volumes is not
// limited.
func (s *Space) AddOffers(from Source, a Amounts, sign int) {
	for name, n := range a {
		if IsExtended(name) && (n > 0 || attachable(name)) {
			u := s.counts[name]
			u.offers[from] += sign
			s.setCounts(name, u)
		}
	}
}

// AddRequest adds one request for the resource (sign is 1), or removes one (sign is -1).
func (s *Space) AddRequest(name string, sign int) {
	if IsExtended(name) {
		u := s.counts[name]
		u.requests += sign
		s.setCounts(name, u)
	}
}

// AddRequests is AddRequest for every resource that the amounts name.
func (s *Space) AddRequests(a Amounts, sign int) {
	for name := range a {
		s.AddRequest(name, sign)
	}
}

func (s *Space) setCounts(name string, u counted) {
	s.counts[name] = u
	if u == (counted{}) {
		delete(s.counts, name)
	}
	now := u.rank(name)
	if s.ranks[name] == now {
		return
	}
	s.outdated = true
	s.ranks[name] = now
	if now == none {
		delete(s.ranks, name)
	}
}

func (u counted) rank(name string) rank {
	switch {
	case u.requests == 0 || u.offers == [sources]int{}:
		return none
	case attachable(name):
		return ofDriver
	case u.offers[Catalogs] > 0:
		return ofCatalog
	}
	return ofNode
}

// AssignPositions gives positions to the resources that need one. It returns, in order, the
// resources whose requests now count at another position: the Vectors of these requests must
// be computed again. If moved, all Vectors must be.
func (s *Space) AssignPositions() (changed []string, moved bool) {
	if !s.outdated {
		return nil, false
	}
	s.outdated = false
	chosen, rest := s.chooseNeeded()
	if slices.ContainsFunc(chosen, s.isNew) {
		s.assign(s.withUnneeded(chosen))
		moved = true
	}
	before := s.requestPositions
	s.requestPositions = map[string]Dim{}
	for _, name := range chosen {
		s.requestPositions[name] = s.positions[name]
	}
	for _, name := range rest {
		s.requestPositions[name] = Unoffered
	}
	return difference(before, s.requestPositions), moved
}

// chooseNeeded lists the resources that get a position, and those for which there is none left.
func (s *Space) chooseNeeded() (chosen, rest []string) {
	names := slices.SortedFunc(maps.Keys(s.ranks), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.ranks[a], s.ranks[b]), cmp.Compare(a, b))
	})
	n := min(len(names), Extended)
	return names[:n], names[n:]
}

// isNew reports whether the resource has no position yet.
func (s *Space) isNew(name string) bool {
	_, ok := s.positions[name]
	return !ok
}

// withUnneeded adds the resources that have a position and do not need it now, if there are
// enough positions. So a device plugin that comes and goes moves no positions.
func (s *Space) withUnneeded(chosen []string) []string {
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

// Position returns the position of a resource; false when it has none.
func (s *Space) Position(name string) (Dim, bool) {
	if !IsExtended(name) {
		d, ok := s.positions[name]
		return d, ok
	}
	d, ok := s.requestPositions[name]
	return d, ok && d != Unoffered
}

// RequestPosition returns the position at which requests for a resource count: Unoffered when
// it has none of its own. It reports false for volumes that no node limits.
func (s *Space) RequestPosition(name string) (Dim, bool) {
	if d, ok := s.Position(name); ok {
		return d, true
	}
	return Unoffered, s.LacksPosition(name) || !attachable(name)
}

// LacksPosition reports whether the resource is offered and requested, but has no position because
// others come first.
func (s *Space) LacksPosition(name string) bool { return s.requestPositions[name] == Unoffered }

// IsOfferedBy reports whether a source of that kind offers the extended resource.
func (s *Space) IsOfferedBy(from Source, name string) bool { return s.counts[name].offers[from] > 0 }

// Name returns the resource at position d; empty for Unoffered.
func (s *Space) Name(d Dim) string { return s.names[d] }

// Len is the number of positions.
func (s *Space) Len() int { return len(s.names) }

// Version increases whenever positions move.
func (s *Space) Version() int { return s.version }

// CapacityVector converts what a node or instance type provides into a Vector. Resources without a
// position are left out. Attach limits that are not listed are unlimited.
func (s *Space) CapacityVector(a Amounts) Vector {
	var v Vector
	for _, d := range s.attachLimits {
		v[d] = Most
	}
	for name, n := range a {
		if d, ok := s.positions[name]; ok {
			v[d] = clamp(n)
		}
	}
	return v
}

// RequestVector converts a request into a Vector. Amounts of zero and below are left out.
func (s *Space) RequestVector(a Amounts) Vector {
	var v Vector
	for name, n := range a {
		if n <= 0 {
			continue
		}
		switch d, counts := s.RequestPosition(name); {
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
		if _, ok := s.Position(name); ok {
			a[name] = v[d]
		}
	}
	return a
}
