package schedule

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
)

// preference is one thing that the pods of a class would rather have than not.
type preference struct {
	kind   preferenceKind
	at     int // index in the class's Affinity, AntiAffinity, Preferred or Spreads
	weight int32
}

// preferenceKind says what is preferred. Kinds are in upstream's order of
// relaxation: pods that find no home insist on the first of them no longer.
type preferenceKind int

const (
	nearOthers preferenceKind = iota // preferred pod affinity
	offOthers                        // preferred pod anti-affinity
	onLabels                         // preferred node affinity
	spreadOut                        // ScheduleAnyway
	offTaints                        // PreferNoSchedule
)

// full is the weight of what has none of its own, soft spreads and taints: that of
// the heaviest term there can be.
const full = 100

// preferencesOf lists what the class prefers, in the order in which it is given up: by
// kind, and the heavier term of a kind first. Taints count when tainted says so.
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

// heldPreferences is what pods of a class insist on of what they prefer. The zero stance
// insists on nothing.
type heldPreferences struct {
	// neighbours are terms of pod (anti-)affinity and soft spreads, in the order of tastes.
	neighbours []preference
	// terms of node affinity, heaviest first: all of them hold together. later are
	// lighter ones to be tried when none of terms can be had.
	terms, later []int
	offTaints    bool
}

// firm reports whether there is anything to be given up.
func (t *heldPreferences) firm() bool { return len(t.neighbours)+len(t.terms) > 0 || t.offTaints }

// on reports whether the pods insist on the preference of that kind and index.
func (t *heldPreferences) on(kind preferenceKind, at int) bool { return t.find(kind, at) >= 0 }

func (t *heldPreferences) find(kind preferenceKind, at int) int {
	for i, p := range t.neighbours {
		if p.kind == kind && p.at == at {
			return i
		}
	}
	return -1
}

// name tells the stances of one class apart.
func (t *heldPreferences) name() string {
	if !t.firm() {
		return ""
	}
	return fmt.Sprint(t.neighbours, t.terms, t.offTaints)
}

// without is the stance with one of its neighbours given up.
func (t heldPreferences) without(i int) heldPreferences {
	t.neighbours = slices.Delete(slices.Clone(t.neighbours), i, i+1)
	return t
}

// heldPreferences turns those of a class's preferences that are to be honoured into what its
// pods insist on at first: everything but what nothing anywhere can meet.
func (b *preferenceSearch) held(c *cluster.PodClass, honour []preference) heldPreferences {
	var t heldPreferences
	var terms []int
	for _, p := range honour {
		switch p.kind {
		case offTaints:
			t.offTaints = b.somewhere(c.Requiring(nil, true))
		case onLabels:
			terms = append(terms, p.at)
		case nearOthers:
			if c.Affinity[p.at].Crowd.AnyPod() {
				t.neighbours = append(t.neighbours, p)
			}
		default:
			t.neighbours = append(t.neighbours, p)
		}
	}
	t.terms, t.later = b.together(c, terms, t.offTaints)
	return t
}

// together picks terms that some machine meets all of, from the heaviest down, and
// says which were left out. Upstream insists on one term at a time, the heaviest;
// kube-scheduler adds up all that hold, so a node that meets several is better.
func (b *preferenceSearch) together(c *cluster.PodClass, terms []int, avoidSoft bool) (held, later []int) {
	for i, at := range terms {
		with := append(slices.Clone(held), at)
		if b.somewhere(c.Requiring(with, avoidSoft)) {
			held = with
		} else if len(held) > 0 {
			later = append(later, terms[i])
		}
	}
	return held, later
}

// softer is the stance with one thing given up; false when there is nothing left.
// What no place allows even by itself goes first: holding on to it would cost all
// others. Otherwise the order is upstream's, but terms of node affinity go lightest
// first, as several hold together.
func (s *solver) softer(k *podGroup) (heldPreferences, bool) {
	t := k.held
	if i := s.blocked(k); i >= 0 {
		return t.without(i), true
	}
	switch {
	case len(t.neighbours) > 0 && t.neighbours[0].kind != spreadOut:
		return t.without(0), true
	case len(t.terms) > 1:
		t.terms, t.later = t.terms[:len(t.terms)-1], later(t)
		return t, true
	case len(t.terms) == 1:
		t.terms, t.later = s.search.together(k.PodClass, t.later, t.offTaints)
		return t, true
	case len(t.neighbours) > 0:
		return t.without(0), true
	}
	more := t.offTaints
	t.offTaints = false
	return t, more
}

// later are the terms to be tried once the heaviest is given up.
func later(t heldPreferences) []int {
	out := append(slices.Clone(t.later), t.terms[len(t.terms)-1])
	slices.Sort(out)
	return out
}

// blocked is the first thing insisted on that is not to be had in any place with
// room, whatever becomes of the others; negative when there is none.
func (s *solver) blocked(k *podGroup) int {
	for i, p := range k.held.neighbours {
		for j := range k.rules {
			r := &k.rules[j]
			if r.soft && r.preference == p && !s.anywhere(k, r) {
				return i
			}
		}
	}
	return -1
}

// anywhere reports whether some cell with room is allowed by the rule.
func (s *solver) anywhere(k *podGroup, r *domainRule) bool {
	var universe []int
	if r.kind == spreads {
		universe = usable(k.cells, r.axis)
	}
	return slices.ContainsFunc(k.cells, func(c *cell) bool { return r.allows(c.Values[r.axis], universe) && s.hasRoom(k, c) })
}

// relax splits off the pods of k that have no home, as work that insists on one
// thing less; nil when they insist on nothing any more.
func (s *solver) relax(k *podGroup) *podGroup {
	n := k.left()
	if n == 0 || !k.held.firm() || s.overMaxPrice {
		return nil
	}
	next, ok := s.softer(k)
	if !ok {
		return nil
	}
	rest := newPodGroup(k.PodClass, k.Pods[len(k.Pods)-n:], next)
	k.Pods = k.Pods[:len(k.Pods)-n]
	for i := range k.rules {
		k.rules[i].unwatch()
	}
	s.compileNodeRulesOf(rest)
	rest.nodeRules.increments = k.nodeRules.increments
	rest.nodeRules.finish()
	s.domainRulesOf(rest)
	s.finishDomains(rest)
	s.podGroups = append(s.podGroups, rest)
	return rest
}

// unwatch notes, once, that a preference has been given up for the first time: pods
// that are placed from now on need not be counted for it.
func (r *domainRule) unwatch() {
	if r.soft && !r.unwatched {
		r.unwatched = true
		r.count.watchers--
	}
}

// relaxAll relaxes every work that has pods without a home.
func (s *solver) relaxAll(all []*podGroup) []*podGroup {
	var out []*podGroup
	for _, k := range all {
		if rest := s.relax(k); rest != nil {
			out = append(out, rest)
		}
	}
	return out
}

// unhoused takes back pods that room was promised to but not bought for, where they
// may still give something up, and returns them as work to be placed again.
func (s *solver) unhoused(parts []*allotment) []*podGroup {
	var out []*podGroup
	for _, p := range parts {
		if n := p.left(); n > 0 && p.held.firm() {
			p.want, p.short = p.want-n, p.short+n
			p.podGroup.promised -= n
		}
	}
	for _, p := range parts {
		if rest := s.relax(p.podGroup); rest != nil {
			out = append(out, rest)
		}
	}
	return out
}
