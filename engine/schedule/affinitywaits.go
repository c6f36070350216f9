// SPDX-License-Identifier: Apache-2.0

package schedule

import "slices"

// mayWaitForEachOther reports whether required terms of pod affinity lead from some group to others and
// back to it, and no group of such a circle may begin.
func (s *solver) mayWaitForEachOther() bool {
	if !slices.ContainsFunc(s.podGroups, requiresTerms) {
		return false
	}
	w := newAffinityWaits(s)
	return w.countReady() < len(s.podGroups)
}

// affinityWaits is which pod groups wait for pods of which others, over required terms of pod affinity.
// Groups and terms go by their numbers: terms over counters come before those over domain counts.
type affinityWaits struct {
	groups   []*podGroup
	counters int                // how many there are
	waiting  [][]int            // by term: the groups that have it
	waitsFor []int              // by group: how many of its terms are not met
	from     []int              // by term: how many groups it waits for
	begins   map[groupTerm]bool // terms of groups that only the group itself keeps waiting
	ready    []int              // groups whose terms are all met
}

// groupTerm is a group and a term that it has.
type groupTerm struct{ group, term int }

func newAffinityWaits(s *solver) *affinityWaits {
	terms := len(s.counters.all) + len(s.topology.countList)
	w := &affinityWaits{
		groups: s.podGroups, counters: len(s.counters.all), begins: map[groupTerm]bool{},
		waiting: make([][]int, terms), from: make([]int, terms), waitsFor: make([]int, len(s.podGroups)),
	}
	for i, g := range w.groups {
		eachRequiredTerm(g, func(t term, _ bool) {
			n := w.number(t)
			w.waiting[n] = append(w.waiting[n], i)
			w.waitsFor[i]++
		})
	}
	for t := range w.waiting {
		for _, i := range w.mayBegin(t) {
			w.begins[groupTerm{i, t}] = true
		}
	}
	for i := range w.groups {
		w.eachSelecting(i, func(t int) { w.from[t]++ })
	}
	return w
}

func (w *affinityWaits) number(t term) int {
	if t.domain != nil {
		return w.counters + t.domain.number
	}
	return t.counter
}

// mayBegin lists those of the groups with the term that only each other's pods keep waiting for it: the
// only one that its own terms select, or, over domains, groups that all have this one term and are
// selected by it. Any of their pods may be the first, and the others are in its domain.
func (w *affinityWaits) mayBegin(t int) []int {
	var out []int
	alike := t >= w.counters
	for _, i := range w.waiting[t] {
		terms, selfSelecting := countRequiredTerms(w.groups[i])
		if selfSelecting {
			out = append(out, i)
		}
		alike = alike && selfSelecting && terms == 1
	}
	if len(out) > 1 && !alike {
		return nil
	}
	return out
}

// eachSelecting visits the terms of groups that select pods of the i-th group, but those with which it
// may begin.
func (w *affinityWaits) eachSelecting(i int, visit func(t int)) {
	look := func(t int) {
		if len(w.waiting[t]) > 0 && !w.begins[groupTerm{i, t}] {
			visit(t)
		}
	}
	g := w.groups[i]
	for _, c := range g.nodeRules.increments {
		look(c)
	}
	for j := range g.domainIncrements {
		g.domainIncrements[j].each(func(dc *domainCount) { look(w.counters + dc.number) })
	}
}

// countReady counts the groups that wait for none, or only for groups that it counts.
func (w *affinityWaits) countReady() int {
	for i, n := range w.waitsFor {
		if n == 0 {
			w.ready = append(w.ready, i)
		}
	}
	for t, n := range w.from {
		if n == 0 {
			w.met(t)
		}
	}
	for n := 0; n < len(w.ready); n++ {
		w.eachSelecting(w.ready[n], func(t int) {
			if w.from[t]--; w.from[t] == 0 {
				w.met(t)
			}
		})
	}
	return len(w.ready)
}

// met notes that the groups with the term wait for it no more.
func (w *affinityWaits) met(t int) {
	for _, i := range w.waiting[t] {
		if w.waitsFor[i]--; w.waitsFor[i] == 0 {
			w.ready = append(w.ready, i)
		}
	}
}

// requiresTerms reports whether pods of the group require any term.
func requiresTerms(g *podGroup) bool {
	n, _ := countRequiredTerms(g)
	return n > 0
}
