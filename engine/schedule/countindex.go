// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
)

// countIndex finds the counts, of counters or of domains, that include the pods of a class. Each
// count has a number, from 0. There may be as many counts as classes: to ask each count about each
// class would take the square of that.
type countIndex struct {
	skipVirtual bitset.Set // the counts that leave out virtual pods
	// few is the number + 1 of the last count by ID of its selector, before the number + 1 of the one
	// with the same selector before that; 0 where there is none. Beyond a short list, last takes the
	// place of few: a table up to the largest ID, which most of the many plans of a pass need not fill.
	few          numbersByID
	last, before []int32
	byTerm       map[*cluster.AntiAffinityTerm][]int
	found        bitset.Sparse // scratch: see including
}

// add gives the next number to a count.
func (x *countIndex) add(k countedPods) {
	n := len(x.before)
	x.before = append(x.before, 0)
	if k.skipVirtual {
		x.skipVirtual.Put(n)
	}
	switch {
	case k.selector != nil:
		x.before[n] = x.replaceLast(k.selector.ID(), int32(n+1))
	case k.owners != nil:
		if x.byTerm == nil {
			x.byTerm = map[*cluster.AntiAffinityTerm][]int{}
		}
		x.byTerm[k.owners] = append(x.byTerm[k.owners], n)
	}
}

// replaceLast makes the number that of the last count by selector, and returns the one before.
func (x *countIndex) replaceLast(id int, number int32) (before int32) {
	if x.last == nil && len(x.few) < shortList {
		before = int32(x.few.at(id))
		x.few.add(id, int(number-before))
		return before
	}
	for _, f := range x.few {
		x.growTo(f.id)
		x.last[f.id] = int32(f.n)
	}
	x.few = nil
	x.growTo(id)
	before, x.last[id] = x.last[id], number
	return before
}

// growTo makes the table reach to the ID.
func (x *countIndex) growTo(id int) {
	if id >= len(x.last) {
		x.last = slices.Grow(x.last, id+1-len(x.last))[:id+1]
	}
}

// including returns the numbers of the counts that include pods of the class; none of ports. The
// set is valid until the next call.
func (x *countIndex) including(c *cluster.PodClass) *bitset.Sparse {
	x.found.Clear()
	put := func(n int) {
		if !(c.Virtual && x.skipVirtual.Has(n)) {
			x.found.Put(n)
		}
	}
	putAll := func(last int32) {
		for at := last; at > 0; at = x.before[at-1] {
			put(int(at - 1))
		}
	}
	for _, f := range x.few {
		if c.Selectors().Has(f.id) {
			putAll(int32(f.n))
		}
	}
	if len(x.last) > 0 {
		for id := range c.Selectors().All() {
			if id >= len(x.last) {
				break
			}
			putAll(x.last[id])
		}
	}
	if len(x.byTerm) > 0 {
		for _, t := range c.RequiredAntiAffinity() {
			for _, n := range x.byTerm[t] {
				put(n)
			}
		}
	}
	return &x.found
}
