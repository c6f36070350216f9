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
	index  int // index in the class's Affinity, AntiAffinity, Preferred or Spreads
	weight int32
}

// preferenceKind is the kind of a preference. Kinds are in Karpenter's order of relaxation:
// pods that cannot be placed drop the first kind first.
type preferenceKind int

const (
	podAffinity     preferenceKind = iota // preferred pod affinity
	podAntiAffinity                       // preferred pod anti-affinity
	nodeAffinity                          // preferred node affinity
	softSpread                            // ScheduleAnyway
	softTaint                             // PreferNoSchedule
)

// defaultWeight is the weight of preferences that have no weight of their own (soft spreads
// and taints): that of the heaviest term there can be.
const defaultWeight = 100

// preferencesOf lists the class's preferences in Karpenter's order of relaxation: by kind, and the
// heavier term of a kind first. dropOnePreference says where karve departs from it. Taints are
// included when tainted is set.
func preferencesOf(c *cluster.PodClass, tainted bool) []preference {
	var out []preference
	for i, n := range c.Affinity {
		if n.Weight > 0 {
			out = append(out, preference{podAffinity, i, n.Weight})
		}
	}
	for i, n := range c.AntiAffinity {
		if n.Weight > 0 {
			out = append(out, preference{podAntiAffinity, i, n.Weight})
		}
	}
	for i, t := range c.Preferred {
		out = append(out, preference{nodeAffinity, i, t.Weight})
	}
	for i, e := range c.Spreads {
		if e.Soft {
			out = append(out, preference{softSpread, i, defaultWeight})
		}
	}
	if tainted {
		out = append(out, preference{softTaint, 0, defaultWeight})
	}
	slices.SortStableFunc(out, func(a, b preference) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(b.weight, a.weight))
	})
	return out
}

// heldPreferences are the preferences that pods of a class require for now. The zero value
// requires none.
type heldPreferences struct {
	// podRules are terms of pod (anti-)affinity and soft spreads, in the order of
	// preferencesOf.
	podRules []preference
	// terms are indices of node affinity terms, heaviest first: all of them hold together.
	// laterTerms are lighter ones, tried when none of terms can be met.
	terms, laterTerms []int
	avoidsSoftTaints  bool
}

// notEmpty reports whether there is any preference to be dropped.
func (held *heldPreferences) notEmpty() bool {
	return len(held.podRules)+len(held.terms) > 0 || held.avoidsSoftTaints
}

// holds reports whether the preference of that kind and index is held.
func (held *heldPreferences) holds(kind preferenceKind, at int) bool {
	return held.indexOf(kind, at) >= 0
}

func (held *heldPreferences) indexOf(kind preferenceKind, at int) int {
	for i, p := range held.podRules {
		if p.kind == kind && p.index == at {
			return i
		}
	}
	return -1
}

// key is different for different held preferences of one class.
func (held *heldPreferences) key() string {
	if !held.notEmpty() {
		return ""
	}
	return fmt.Sprint(held.podRules, held.terms, held.avoidsSoftTaints)
}

// without returns a copy with one of the podRules dropped.
func (held heldPreferences) without(i int) heldPreferences {
	held.podRules = slices.Delete(slices.Clone(held.podRules), i, i+1)
	return held
}

// initiallyHeld returns the preferences that the class's pods require at first: all that are
// to be honoured, without those that no node or offering can meet.
func (ps *preferenceSearch) initiallyHeld(c *cluster.PodClass, chosen []preference) heldPreferences {
	var held heldPreferences
	var terms []int
	for _, p := range chosen {
		switch p.kind {
		case softTaint:
			held.avoidsSoftTaints = ps.someNodeOrOffering(c.Requiring(nil, true))
		case nodeAffinity:
			terms = append(terms, p.index)
		case podAffinity:
			if c.Affinity[p.index].Selector.AnyPod() {
				held.podRules = append(held.podRules, p)
			}
		default:
			held.podRules = append(held.podRules, p)
		}
	}
	held.terms, held.laterTerms = ps.meetTogether(c, terms, held.avoidsSoftTaints)
	return held
}

// meetTogether picks terms that one node can meet at the same time, from the heaviest down,
// and returns the others as later. Karpenter requires one term at a time, the heaviest;
// kube-scheduler adds up the weights of all that hold, so a node that meets several is better.
func (ps *preferenceSearch) meetTogether(c *cluster.PodClass, terms []int, avoidSoft bool) (held, later []int) {
	for i, at := range terms {
		with := append(slices.Clone(held), at)
		if ps.someNodeOrOffering(c.Requiring(with, avoidSoft)) {
			held = with
		} else if len(held) > 0 {
			later = append(later, terms[i])
		}
	}
	return held, later
}

// dropOnePreference returns the held preferences with one dropped; false when there is none
// left. The first to be dropped is one that no cell with capacity allows even by itself:
// keeping it would cost all others. Otherwise the order is Karpenter's, but node affinity
// terms are dropped lightest first, as several hold together.
func (s *solver) dropOnePreference(g *podGroup) (heldPreferences, bool) {
	held := g.held
	if i := s.nodes.impossiblePreference(g); i >= 0 {
		return held.without(i), true
	}
	switch {
	case len(held.podRules) > 0 && held.podRules[0].kind != softSpread:
		return held.without(0), true
	case len(held.terms) > 1:
		held.terms, held.laterTerms = held.terms[:len(held.terms)-1], laterTerms(held)
		return held, true
	case len(held.terms) == 1:
		held.terms, held.laterTerms = s.preferences.meetTogether(g.class, held.laterTerms, held.avoidsSoftTaints)
		return held, true
	case len(held.podRules) > 0:
		return held.without(0), true
	}
	more := held.avoidsSoftTaints
	held.avoidsSoftTaints = false
	return held, more
}

// laterTerms returns the terms to be tried once the heaviest is dropped.
func laterTerms(held heldPreferences) []int {
	out := append(slices.Clone(held.laterTerms), held.terms[len(held.terms)-1])
	slices.Sort(out)
	return out
}

// impossiblePreference is the index of the first held preference about other pods (podRules)
// that no cell with capacity meets, whatever becomes of the others; negative when there is none.
func (n *nodes) impossiblePreference(g *podGroup) int {
	for i, p := range g.held.podRules {
		for j := range g.domainRules {
			r := &g.domainRules[j]
			if r.soft && r.preference == p && !n.allowSomewhere(g, r) {
				return i
			}
		}
	}
	return -1
}

// allowSomewhere reports whether the rule allows some cell with capacity.
func (n *nodes) allowSomewhere(g *podGroup, r *domainRule) bool {
	var usable []int
	if r.kind == spreadRule {
		usable = g.usableValues(nil, r, g.cells, true)
	}
	return slices.ContainsFunc(g.cells, func(c *cell) bool { return r.allows(c.Values[r.keyIndex], usable, true) && n.hasRoom(g, c) })
}

// relax splits off the pods of g without a place, as a pod group that holds one preference
// less; nil when they hold none any more.
func (s *solver) relax(g *podGroup) *podGroup {
	n := g.unassigned()
	if n == 0 || !g.held.notEmpty() || s.limits.overMaxPrice() {
		return nil
	}
	next, ok := s.dropOnePreference(g)
	if !ok {
		return nil
	}
	rest := newPodGroup(g.class, g.pods[len(g.pods)-n:], next)
	g.pods = g.pods[:len(g.pods)-n]
	for i := range g.domainRules {
		g.domainRules[i].markDropped()
	}
	s.counters.compile(rest)
	rest.nodeRules.increments = g.nodeRules.increments
	rest.nodeRules.finish()
	s.topology.compileDomainRules(rest)
	s.topology.compileDomainIncrements(rest)
	s.podGroups = append(s.podGroups, rest)
	return rest
}

// markDropped records, once, that a preference was dropped for the first time: pods that are
// placed from now on need not be counted for it.
func (r *domainRule) markDropped() {
	if r.soft && !r.dropped {
		r.dropped = true
		r.count.readers--
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

// relaxUnplaced takes the pods for which no node was launched out of their allotments, if they
// can still drop a preference, and returns them as pod groups to be placed again.
func (s *solver) relaxUnplaced(allotments []*allotment) []*podGroup {
	var out []*podGroup
	for _, a := range allotments {
		if n := a.left(); n > 0 && a.group.held.notEmpty() {
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
