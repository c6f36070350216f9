// SPDX-License-Identifier: Apache-2.0

package quantity

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Positions assigns resources their positions in Vectors. The base resources always have theirs.
// An extended resource has one while a catalog or a node offers it and a pod, a DaemonSet or
// a NodePool limit requests it: a name that only a pod mentions takes none.
//
// Positions follow the names of the resources, so they do not depend on the order of events.
// When there are more resources than positions, attach limits of CSI drivers come first, then
// resources that catalogs offer, then resources that only nodes offer, each in order of their
// names. The remaining resources count as NoPosition.
//
// Offers and requests are counted as they arrive; positions change only in AssignPositions.
// The zero Positions is not usable; see NewPositions.
type Positions struct {
	names        []string       // by position
	positions    map[string]Dim // by name; a resource keeps its position while there are enough
	attachLimits []Dim          // positions of attach limits
	version      int            // increases whenever names changes

	// requestPositions is where requests for a resource count since the last AssignPositions:
	// at its position, or at NoPosition. For resources that are not in it: attached volumes
	// have no limit on any node, and all others count as NoPosition.
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

// NewPositions returns Positions with only the base resources.
func NewPositions() *Positions {
	p := &Positions{requestPositions: map[string]Dim{}, counts: map[string]counted{}, ranks: map[string]rank{}}
	p.assign(nil)
	return p
}

// assign gives positions to the extended resources, which must be sorted.
func (p *Positions) assign(extended []string) {
	p.names = append([]string{NameCPU, NameMemory, NameStorage, NamePods, ""}, extended...)
	p.positions, p.attachLimits = map[string]Dim{}, nil
	for d, name := range p.names {
		p.positions[name] = Dim(d)
		if attachable(name) {
			p.attachLimits = append(p.attachLimits, Dim(d))
		}
	}
	delete(p.positions, "")
	p.version++
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
func (p *Positions) AddOffers(from Source, a Amounts, sign int) {
	for name, n := range a {
		if IsExtended(name) && (n > 0 || attachable(name)) {
			u := p.counts[name]
			u.offers[from] += sign
			p.setCounts(name, u)
		}
	}
}

// AddRequest adds one request for the resource (sign is 1), or removes one (sign is -1).
func (p *Positions) AddRequest(name string, sign int) {
	if IsExtended(name) {
		u := p.counts[name]
		u.requests += sign
		p.setCounts(name, u)
	}
}

// AddRequests is AddRequest for every resource that the amounts name.
func (p *Positions) AddRequests(a Amounts, sign int) {
	for name := range a {
		p.AddRequest(name, sign)
	}
}

func (p *Positions) setCounts(name string, u counted) {
	p.counts[name] = u
	if u == (counted{}) {
		delete(p.counts, name)
	}
	now := u.rank(name)
	if p.ranks[name] == now {
		return
	}
	p.outdated = true
	p.ranks[name] = now
	if now == none {
		delete(p.ranks, name)
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
func (p *Positions) AssignPositions() (changed []string, moved bool) {
	if !p.outdated {
		return nil, false
	}
	p.outdated = false
	chosen, rest := p.chooseNeeded()
	if slices.ContainsFunc(chosen, p.isNew) {
		p.assign(p.withUnneeded(chosen))
		moved = true
	}
	before := p.requestPositions
	p.requestPositions = map[string]Dim{}
	for _, name := range chosen {
		p.requestPositions[name] = p.positions[name]
	}
	for _, name := range rest {
		p.requestPositions[name] = NoPosition
	}
	return difference(before, p.requestPositions), moved
}

// chooseNeeded lists the resources that get a position, and those for which there is none left.
func (p *Positions) chooseNeeded() (chosen, rest []string) {
	names := slices.SortedFunc(maps.Keys(p.ranks), func(a, b string) int {
		return cmp.Or(cmp.Compare(p.ranks[a], p.ranks[b]), cmp.Compare(a, b))
	})
	n := min(len(names), Extended)
	return names[:n], names[n:]
}

// isNew reports whether the resource has no position yet.
func (p *Positions) isNew(name string) bool {
	_, ok := p.positions[name]
	return !ok
}

// withUnneeded adds the resources that have a position and do not need it now, if there are
// enough positions. So a device plugin that comes and goes moves no positions.
func (p *Positions) withUnneeded(chosen []string) []string {
	out := slices.Clone(chosen)
	for _, name := range p.names[base:] {
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

// Position returns the position of a resource; false when it has none, or does not need it
// now.
func (p *Positions) Position(name string) (Dim, bool) {
	if !IsExtended(name) {
		d, ok := p.positions[name]
		return d, ok
	}
	d, ok := p.requestPositions[name]
	return d, ok && d != NoPosition
}

// RequestPosition returns the position at which requests for a resource count: NoPosition when
// it has none of its own. It reports false for volumes that no node limits.
func (p *Positions) RequestPosition(name string) (Dim, bool) {
	if d, ok := p.Position(name); ok {
		return d, true
	}
	return NoPosition, p.LacksPosition(name) || !attachable(name)
}

// LacksPosition reports whether the resource is offered and requested, but has no position because
// others come first.
func (p *Positions) LacksPosition(name string) bool { return p.requestPositions[name] == NoPosition }

// IsOfferedBy reports whether a source of that kind offers the extended resource.
func (p *Positions) IsOfferedBy(from Source, name string) bool {
	return p.counts[name].offers[from] > 0
}

// Name returns the resource at position d; empty for NoPosition.
func (p *Positions) Name(d Dim) string { return p.names[d] }

// Len is the number of positions.
func (p *Positions) Len() int { return len(p.names) }

// Version increases whenever positions move.
func (p *Positions) Version() int { return p.version }

// CapacityVector converts what a node or instance type provides into a Vector. Resources without a
// position are left out. Attach limits that are not listed are unlimited.
func (p *Positions) CapacityVector(a Amounts) Vector {
	var v Vector
	for _, d := range p.attachLimits {
		v[d] = Most
	}
	for name, n := range a {
		if d, ok := p.positions[name]; ok {
			v[d] = clamp(n)
		}
	}
	return v
}

// RequestVector converts a request into a Vector. Amounts of zero and below are left out.
func (p *Positions) RequestVector(a Amounts) Vector {
	var v Vector
	for name, n := range a {
		if n <= 0 {
			continue
		}
		switch d, counts := p.RequestPosition(name); {
		case !counts:
		case d == NoPosition:
			v[d] = 1
		default:
			v[d] = clamp(n)
		}
	}
	return v
}

// Amounts converts v back into Amounts, without zeros and without resources that do not need
// their position now.
func (p *Positions) Amounts(v Vector) Amounts {
	a := Amounts{}
	for d, name := range p.names {
		if v[d] == 0 {
			continue
		}
		if _, ok := p.Position(name); ok {
			a[name] = v[d]
		}
	}
	return a
}
