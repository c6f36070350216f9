// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"cmp"
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
)

// term is what one required term of pod affinity reads: a counter over hostnames, or, when domain is
// not nil, the count of a domain.
type term struct {
	counter int
	domain  *domainCount
}

// eachRequiredTerm visits the terms that pods of the group require. own is set when the term selects
// them.
func eachRequiredTerm(g *podGroup, visit func(t term, own bool)) {
	for _, d := range g.nodeRules.needs {
		if !d.soft {
			visit(term{counter: d.counter}, d.selfSelecting)
		}
	}
	for i := range g.domainRules {
		if r := &g.domainRules[i]; r.kind == affinityRule && !r.soft {
			visit(term{domain: r.count}, r.countsOwnPods)
		}
	}
}

// requiredTerms are the terms that pods of the group require. It reports true when the pods may be the
// first of their kind: all the terms select them.
func (g *podGroup) requiredTerms() (terms []term, selfSelecting bool) {
	selfSelecting = true
	eachRequiredTerm(g, func(t term, own bool) {
		terms, selfSelecting = append(terms, t), selfSelecting && own
	})
	return terms, selfSelecting
}

// countRequiredTerms counts requiredTerms.
func countRequiredTerms(g *podGroup) (n int, selfSelecting bool) {
	selfSelecting = true
	eachRequiredTerm(g, func(_ term, own bool) {
		n, selfSelecting = n+1, selfSelecting && own
	})
	return n, selfSelecting
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
		before := len(out)
		g.domainIncrements[i].each(func(dc *domainCount) { add(term{domain: dc}) })
		slices.SortFunc(out[before:], func(a, b term) int { return cmp.Compare(a.domain.number, b.domain.number) })
	}
	return out
}

// bindOrder finds pods of a plan that kube-scheduler can bind in no order: each waits for others that a
// required term of its pod affinity selects, or such others make a hard spread refuse it. It binds first
// what blocks nothing; other rules are not looked at.
type bindOrder struct {
	solver *solver
	// ignoreSpreads is set when no pod must be bound after some, to join them, and before others that its
	// spread counts. What assigned the pods to domains then kept the spreads.
	ignoreSpreads bool
	terms         map[term][]*podGroup
	batches       []*batch
	waiting       map[target][]*batch
	bound         map[target]bool
	found         map[term]bool // whether a pod that the term selects is bound where it counts
	running       map[*domainCount]map[int]int
	ready         [bindRanks][]*batch
	pods          boundPods
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
	count    int     // the pods that are not bound yet
}

// target is where pods join those that a term selects: a node, or a domain.
type target struct {
	term   term
	launch *launch
	at     int // the index of an existing node, or the value of a domain's label
}

// unbindableClasses lists the classes of pods with a place that can be bound in no order: those that a
// spread refuses, and those that wait for others.
func (s *solver) unbindableClasses() (refused, waiting []*cluster.PodClass) {
	if !s.placements.enabled {
		return nil, nil
	}
	mayBlock := spreadsMayBlock(s)
	if !mayBlock && !s.mayWaitForEachOther() {
		return nil, nil
	}
	b := bindOrder{
		solver: s, ignoreSpreads: !mayBlock, terms: map[term][]*podGroup{}, waiting: map[target][]*batch{}, bound: map[target]bool{},
		found: map[term]bool{}, running: map[*domainCount]map[int]int{}, pods: newBoundPods(s),
	}
	for _, g := range s.podGroups {
		terms, _ := g.requiredTerms()
		for _, t := range terms {
			b.terms[t] = append(b.terms[t], g)
		}
	}
	b.listBatches()
	for _, at := range b.batches {
		b.wait(at)
		if at.waitsFor == 0 {
			b.add(at)
		}
	}
	b.bindReady()
	for _, at := range b.batches { // those left wait for each other, unless one may be the first
		if at.waitsFor > 0 && at.first && !slices.ContainsFunc(at.terms, b.isFound) {
			at.waitsFor = 0
			b.add(at)
			b.bindReady()
		}
	}
	if b.pods.exhausted() {
		s.searches.cut(BindOrder, b.unbound())
		return nil, nil
	}
	for _, at := range b.batches {
		list := &waiting
		if at.waitsFor <= 0 {
			list = &refused
		}
		if at.count > 0 && !slices.Contains(*list, at.group.class) {
			*list = append(*list, at.group.class)
		}
	}
	return refused, waiting
}

// unbound counts the pods that are not bound yet.
func (b *bindOrder) unbound() int {
	n := 0
	for _, at := range b.batches {
		n += at.count
	}
	return n
}

// listBatches lists the pods that have a place.
func (b *bindOrder) listBatches() {
	add := func(at batch) {
		at.terms, at.first = at.group.requiredTerms()
		b.batches = append(b.batches, &at)
	}
	for _, at := range b.solver.placements.all {
		if at.launch == nil {
			add(batch{group: at.group, node: at.node, count: at.count})
		}
	}
	for _, l := range b.solver.launches.all {
		for _, p := range l.content {
			add(batch{group: p.allotment.group, launch: l, cell: p.allotment.cell, count: p.n})
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

// add adds a batch that waits for no other.
func (b *bindOrder) add(at *batch) {
	rank := b.rank(at.group)
	b.ready[rank] = append(b.ready[rank], at)
}

// bindReady binds the pods that are ready, and then those that waited for them, until spreads refuse
// all that are left.
func (b *bindOrder) bindReady() {
	for {
		b.bindAllowed()
		rank := uncounted
		for rank < bindRanks && len(b.ready[rank]) == 0 {
			rank++
		}
		if rank == bindRanks || b.pods.exhausted() {
			return
		}
		at := b.ready[rank][0]
		b.ready[rank] = b.ready[rank][1:]
		if rank == uncounted || len(b.ready[spreads]) == 0 && len(b.waiting) == 0 {
			b.bind(at, at.count)
			continue
		}
		if b.bind(at, 1); at.count > 0 {
			b.ready[rank] = append(b.ready[rank], at)
		}
	}
}

// bindAllowed binds the ready pods that have hard spreads, as far as these let them.
func (b *bindOrder) bindAllowed() {
	for again := true; again; {
		again = false
		for i := 0; i < len(b.ready[spreads]); i++ {
			again = b.bindWithSpreads(b.ready[spreads][i]) || again
		}
		b.ready[spreads] = slices.DeleteFunc(b.ready[spreads], func(at *batch) bool { return at.count == 0 })
	}
}

// bind binds pods of the batch, and adds the batches that waited for one of them.
func (b *bindOrder) bind(at *batch, pods int) {
	at.count -= pods
	b.pods.steps += 1 + at.group.countsChanged()/countsPerStep
	b.count(at, pods)
	for _, t := range b.solver.selectingTerms(at.group, b.terms) {
		where, ok := b.target(at, t)
		if !ok || b.bound[where] {
			continue
		}
		b.bound[where], b.found[t] = true, true
		for _, o := range b.waiting[where] {
			if o.waitsFor--; o.waitsFor == 0 && o.count > 0 {
				b.add(o)
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
