// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
)

// term is what one required term of pod affinity reads: a counter over hostnames, or, when domain is
// not nil, the count of a domain.
type term struct {
	counter int
	domain  *domainCount
}

// requiredTerms are the terms that pods of the group require. It reports true when the pods may be the
// first of their kind: all the terms select them.
func (g *podGroup) requiredTerms() (terms []term, selfSelecting bool) {
	selfSelecting = true
	for _, d := range g.nodeRules.needs {
		if !d.soft {
			terms, selfSelecting = append(terms, term{counter: d.counter}), selfSelecting && d.selfSelecting
		}
	}
	for i := range g.domainRules {
		if r := &g.domainRules[i]; r.kind == affinityRule && !r.soft {
			terms, selfSelecting = append(terms, term{domain: r.count}), selfSelecting && r.countsOwnPods
		}
	}
	return terms, selfSelecting
}

// selectingTerms are those of the terms in known that select pods of the group.
func (s *solver) selectingTerms(g *podGroup, known map[term][]*podGroup) []term {
	var out []term
	add := func(t term) {
		if _, ok := known[t]; ok {
			out = append(out, t)
		}
	}
	for _, c := range g.nodeRules.increments {
		add(term{counter: c})
	}
	for i := range g.domainIncrements {
		for at := range g.domainIncrements[i].counts.All() {
			add(term{domain: s.topology.countList[at]})
		}
	}
	return out
}

// mayWaitForEachOther reports whether required terms of pod affinity lead from some group to others and
// back to it. A group that only its own pods keep in such a circle may begin with one of them.
func (s *solver) mayWaitForEachOther() bool {
	waiting := map[term][]*podGroup{} // the groups that have the term
	waitsFor := map[*podGroup]int{}
	alone := map[term]*podGroup{} // the group that has the term and may be the first; nil if there are several
	for _, g := range s.podGroups {
		terms, selfSelecting := g.requiredTerms()
		waitsFor[g] = len(terms)
		for _, t := range terms {
			waiting[t] = append(waiting[t], g)
			if !selfSelecting {
				continue
			}
			if _, others := alone[t]; others {
				alone[t] = nil
			} else {
				alone[t] = g
			}
		}
	}
	if len(waiting) == 0 {
		return false
	}
	selected := map[*podGroup][]term{}
	from := map[term]int{} // how many groups the term waits for
	for _, g := range s.podGroups {
		selected[g] = s.selectingTerms(g, waiting)
		for _, t := range selected[g] {
			if alone[t] != g {
				from[t]++
			}
		}
	}
	var ready []*podGroup
	met := func(t term) {
		for _, g := range waiting[t] {
			if waitsFor[g]--; waitsFor[g] == 0 {
				ready = append(ready, g)
			}
		}
	}
	for _, g := range s.podGroups {
		if waitsFor[g] == 0 {
			ready = append(ready, g)
		}
	}
	for t := range waiting {
		if from[t] == 0 {
			met(t)
		}
	}
	n := 0
	for ; n < len(ready); n++ {
		for _, t := range selected[ready[n]] {
			if alone[t] == ready[n] {
				continue
			}
			if from[t]--; from[t] == 0 {
				met(t)
			}
		}
	}
	return n < len(s.podGroups)
}

// bindOrder finds pods of a plan that kube-scheduler can bind in no order, because each waits for
// others that a required term of its pod affinity selects. Only affinity is looked at.
type bindOrder struct {
	solver  *solver
	terms   map[term][]*podGroup
	batches []*batch
	waiting map[target][]*batch
	bound   map[target]bool
	found   map[term]bool // whether a pod that the term selects is bound anywhere
	running map[*domainCount]map[int]int
}

// batch is pods of a group for one node.
type batch struct {
	group    *podGroup
	launch   *launch // nil for an existing node
	node     int     // index, when launch is nil
	cell     *cell   // of the launch; nil where the group has no rules over domains
	waitsFor int     // targets without a bound pod
	terms    []term  // that must be met
	first    bool    // it may be the first of its kind
	bound    bool
}

// target is where pods join those that a term selects: a node, or a domain.
type target struct {
	term   term
	launch *launch
	at     int // the index of an existing node, or the value of a domain's label
}

// unbindableClasses lists the classes of pods with a place that can be bound in no order.
func (s *solver) unbindableClasses() []*cluster.PodClass {
	if !s.placements.enabled || !s.mayWaitForEachOther() {
		return nil
	}
	b := bindOrder{solver: s, terms: map[term][]*podGroup{}, waiting: map[target][]*batch{}, bound: map[target]bool{}, found: map[term]bool{}, running: map[*domainCount]map[int]int{}}
	for _, g := range s.podGroups {
		terms, _ := g.requiredTerms()
		for _, t := range terms {
			b.terms[t] = append(b.terms[t], g)
		}
	}
	b.listBatches()
	var ready []*batch
	for _, at := range b.batches {
		b.wait(at)
		if at.waitsFor == 0 {
			ready = append(ready, at)
		}
	}
	b.bindAll(ready)
	for _, at := range b.batches { // those left wait for each other, unless one may be the first
		if !at.bound && at.first && !slices.ContainsFunc(at.terms, b.isFound) {
			b.bindAll([]*batch{at})
		}
	}
	var out []*cluster.PodClass
	for _, at := range b.batches {
		if !at.bound && !slices.Contains(out, at.group.class) {
			out = append(out, at.group.class)
		}
	}
	return out
}

// listBatches lists the pods that have a place.
func (b *bindOrder) listBatches() {
	add := func(at batch) {
		at.terms, at.first = at.group.requiredTerms()
		b.batches = append(b.batches, &at)
	}
	for _, at := range b.solver.placements.all {
		if at.launch == nil {
			add(batch{group: at.group, node: at.node})
		}
	}
	for _, l := range b.solver.launches.all {
		for _, p := range l.content {
			add(batch{group: p.allotment.group, launch: l, cell: p.allotment.cell})
		}
	}
}

// wait makes the batch wait for a pod at each of its targets that has none.
func (b *bindOrder) wait(at *batch) {
	for _, t := range at.terms {
		where, ok := b.target(at, t)
		if ok && b.isBound(where) {
			continue
		}
		at.waitsFor++
		if ok {
			b.waiting[where] = append(b.waiting[where], at)
		}
	}
}

// bindAll binds the batches, and then those that waited for them.
func (b *bindOrder) bindAll(ready []*batch) {
	for i := 0; i < len(ready); i++ {
		at := ready[i]
		at.bound = true
		for _, t := range b.solver.selectingTerms(at.group, b.terms) {
			b.found[t] = true
			where, ok := b.target(at, t)
			if !ok || b.bound[where] {
				continue
			}
			b.bound[where] = true
			for _, o := range b.waiting[where] {
				if o.waitsFor--; o.waitsFor == 0 && !o.bound {
					ready = append(ready, o)
				}
			}
		}
	}
}

// target is where the term counts the batch, or where the batch must meet the term; false when its node
// does not have the label.
func (b *bindOrder) target(at *batch, t term) (target, bool) {
	switch {
	case t.domain == nil && at.launch != nil:
		return target{term: t, launch: at.launch}, true
	case t.domain == nil:
		return target{term: t, at: at.node}, true
	case at.launch == nil:
		v, ok := b.solver.snapshot.Nodes[at.node].Value(t.domain.key)
		return target{term: t, at: v}, ok
	}
	if at.cell == nil {
		return target{}, false
	}
	v := at.cell.Values[at.group.keyIndex(t.domain.key)]
	return target{term: t, at: v}, v >= 0
}

// isBound reports whether a pod that the term selects runs at the target.
func (b *bindOrder) isBound(where target) bool {
	switch {
	case where.term.domain != nil:
		return b.countRunning(where.term.domain)[where.at] > 0
	case where.launch != nil:
		return false
	}
	return b.solver.counters.all[where.term.counter].of.countOn(b.solver.snapshot.Nodes[where.at]) > 0
}

// isFound reports whether a pod that the term selects is bound anywhere.
func (b *bindOrder) isFound(t term) bool {
	switch {
	case b.found[t]:
		return true
	case t.domain != nil:
		return len(b.countRunning(t.domain)) > 0
	}
	return b.solver.counters.runs(t.counter) > 0
}

// countRunning counts the running pods by domain.
func (b *bindOrder) countRunning(dc *domainCount) map[int]int {
	counts, ok := b.running[dc]
	if !ok {
		counts, _ = dc.countPods(b.solver.snapshot)
		b.running[dc] = counts
	}
	return counts
}
