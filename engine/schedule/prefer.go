// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
)

// preference is one preference of the pods of a class.
type preference struct {
	kind   preferenceKind
	at     int // index in the class's Affinity, AntiAffinity, Preferred or Spreads
	weight int32
}

// preferenceKind is the kind of a preference. Kinds are in Karpenter's order of relaxation:
// pods that cannot be placed drop the first kind first.
type preferenceKind int

const (
	nearOthers preferenceKind = iota // preferred pod affinity
	offOthers                        // preferred pod anti-affinity
	onLabels                         // preferred node affinity
	spreadOut                        // ScheduleAnyway
	offTaints                        // PreferNoSchedule
)

// full is the weight of preferences that have no weight of their own (soft spreads and
// taints): that of the heaviest term there can be.
const full = 100

// preferencesOf lists the class's preferences in the order in which they are dropped: by
// kind, and the heavier term of a kind first. Taints are included when tainted is set.
func preferencesOf(c *cluster.PodClass, tainted bool) []preference {
	var out []preference
	for i, n := range c.Affinity {
		if n.Weight > 0 {
			out = append(out, preference{nearOthers, i, n.Weight})
		}
	}
	for i, n := range c.AntiAffinity {
		if n.Weight > 0 {
			out = append(out, preference{offOthers, i, n.Weight})
		}
	}
	for i, t := range c.Preferred {
		out = append(out, preference{onLabels, i, t.Weight})
	}
	for i, e := range c.Spreads {
		if e.Soft {
			out = append(out, preference{spreadOut, i, full})
		}
	}
	if tainted {
		out = append(out, preference{offTaints, 0, full})
	}
	slices.SortStableFunc(out, func(a, b preference) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(b.weight, a.weight))
	})
	return out
}

// heldPreferences are the preferences that pods of a class require for now. The zero value
// requires none.
type heldPreferences struct {
	// neighbours are terms of pod (anti-)affinity and soft spreads, in the order of
	// preferencesOf.
	neighbours []preference
	// terms are indices of node affinity terms, heaviest first: all of them hold together.
	// later are lighter ones, tried when none of terms can be met.
	terms, later []int
	offTaints    bool
}

// firm reports whether there is any preference to be dropped.
func (t *heldPreferences) firm() bool { return len(t.neighbours)+len(t.terms) > 0 || t.offTaints }

// on reports whether the preference of that kind and index is held.
func (t *heldPreferences) on(kind preferenceKind, at int) bool { return t.find(kind, at) >= 0 }

func (t *heldPreferences) find(kind preferenceKind, at int) int {
	for i, p := range t.neighbours {
		if p.kind == kind && p.at == at {
			return i
		}
	}
	return -1
}

// name is different for different held preferences of one class.
func (t *heldPreferences) name() string {
	if !t.firm() {
		return ""
	}
	return fmt.Sprint(t.neighbours, t.terms, t.offTaints)
}

// without returns a copy with one of the neighbours dropped.
func (t heldPreferences) without(i int) heldPreferences {
	t.neighbours = slices.Delete(slices.Clone(t.neighbours), i, i+1)
	return t
}

// held returns the preferences that the class's pods require at first: all that are to be
// honoured, without those that no node or offering can meet.
func (b *preferenceSearch) held(c *cluster.PodClass, honour []preference) heldPreferences {
	var t heldPreferences
	var terms []int
	for _, p := range honour {
		switch p.kind {
		case offTaints:
			t.offTaints = b.someNodeOrOffering(c.Requiring(nil, true))
		case onLabels:
			terms = append(terms, p.at)
		case nearOthers:
			if c.Affinity[p.at].Pods.AnyPod() {
				t.neighbours = append(t.neighbours, p)
			}
		default:
			t.neighbours = append(t.neighbours, p)
		}
	}
	t.terms, t.later = b.together(c, terms, t.offTaints)
	return t
}

// together picks terms that one node can meet at the same time, from the heaviest down, and
// returns the others as later. Karpenter requires one term at a time, the heaviest;
// kube-scheduler adds up the weights of all that hold, so a node that meets several is
// better.
func (b *preferenceSearch) together(c *cluster.PodClass, terms []int, avoidSoft bool) (held, later []int) {
	for i, at := range terms {
		with := append(slices.Clone(held), at)
		if b.someNodeOrOffering(c.Requiring(with, avoidSoft)) {
			held = with
		} else if len(held) > 0 {
			later = append(later, terms[i])
		}
	}
	return held, later
}

// softer returns the held preferences with one dropped; false when there is none left. The
// first to be dropped is one that no cell with capacity allows even by itself: keeping it
// would cost all others. Otherwise the order is Karpenter's, but node affinity terms are
// dropped lightest first, as several hold together.
func (s *solver) softer(g *podGroup) (heldPreferences, bool) {
	t := g.held
	if i := s.blocked(g); i >= 0 {
		return t.without(i), true
	}
	switch {
	case len(t.neighbours) > 0 && t.neighbours[0].kind != spreadOut:
		return t.without(0), true
	case len(t.terms) > 1:
		t.terms, t.later = t.terms[:len(t.terms)-1], later(t)
		return t, true
	case len(t.terms) == 1:
		t.terms, t.later = s.search.together(g.class, t.later, t.offTaints)
		return t, true
	case len(t.neighbours) > 0:
		return t.without(0), true
	}
	more := t.offTaints
	t.offTaints = false
	return t, more
}

// later returns the terms to be tried once the heaviest is dropped.
func later(t heldPreferences) []int {
	out := append(slices.Clone(t.later), t.terms[len(t.terms)-1])
	slices.Sort(out)
	return out
}

// blocked is the index of the first held neighbour preference that no cell with capacity
// meets, whatever becomes of the others; negative when there is none.
func (s *solver) blocked(g *podGroup) int {
	for i, p := range g.held.neighbours {
		for j := range g.domainRules {
			r := &g.domainRules[j]
			if r.soft && r.preference == p && !s.anywhere(g, r) {
				return i
			}
		}
	}
	return -1
}

// anywhere reports whether the rule allows some cell with capacity.
func (s *solver) anywhere(g *podGroup, r *domainRule) bool {
	var universe []int
	if r.kind == spreads {
		universe = usable(g.cells, r.axis)
	}
	return slices.ContainsFunc(g.cells, func(c *cell) bool { return r.allows(c.Values[r.axis], universe) && s.nodes.hasRoom(g, c) })
}

// relax splits off the pods of k without a place, as a pod group that holds one preference
// less; nil when they hold none any more.
func (s *solver) relax(g *podGroup) *podGroup {
	n := g.left()
	if n == 0 || !g.held.firm() || s.limits.over() {
		return nil
	}
	next, ok := s.softer(g)
	if !ok {
		return nil
	}
	rest := newPodGroup(g.class, g.pods[len(g.pods)-n:], next)
	g.pods = g.pods[:len(g.pods)-n]
	for i := range g.domainRules {
		g.domainRules[i].unwatch()
	}
	s.counters.compile(rest)
	rest.nodeRules.increments = g.nodeRules.increments
	rest.nodeRules.finish()
	s.topology.domainRulesOf(rest)
	s.topology.finishDomains(rest)
	s.podGroups = append(s.podGroups, rest)
	return rest
}

// unwatch records, once, that a preference was dropped for the first time: pods that are
// placed from now on need not be counted for it.
func (r *domainRule) unwatch() {
	if r.soft && !r.unwatched {
		r.unwatched = true
		r.count.watchers--
	}
}

// relaxAll relaxes every pod group that has pods without a place.
func (s *solver) relaxAll(all []*podGroup) []*podGroup {
	var out []*podGroup
	for _, g := range all {
		if rest := s.relax(g); rest != nil {
			out = append(out, rest)
		}
	}
	return out
}

// unplaced takes the pods for which no node was launched out of their allotments, if they can
// still drop a preference, and returns them as pod groups to be placed again.
func (s *solver) unplaced(allotments []*allotment) []*podGroup {
	var out []*podGroup
	for _, a := range allotments {
		if n := a.left(); n > 0 && a.group.held.firm() {
			a.wanted, a.dropped = a.wanted-n, a.dropped+n
			a.group.allotted -= n
		}
	}
	for _, a := range allotments {
		if rest := s.relax(a.group); rest != nil {
			out = append(out, rest)
		}
	}
	return out
}
