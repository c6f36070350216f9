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
	// last is the number + 1 of the last count by ID of its selector, before the number + 1 of the one
	// with the same selector before that; 0 where there is none.
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
		id := k.selector.ID()
		if id >= len(x.last) {
			x.last = slices.Grow(x.last, id+1-len(x.last))[:id+1]
		}
		x.before[n], x.last[id] = x.last[id], int32(n+1)
	case k.owners != nil:
		if x.byTerm == nil {
			x.byTerm = map[*cluster.AntiAffinityTerm][]int{}
		}
		x.byTerm[k.owners] = append(x.byTerm[k.owners], n)
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
	if len(x.last) > 0 {
		for id := range c.Selectors().All() {
			if id >= len(x.last) {
				break
			}
			for at := x.last[id]; at > 0; at = x.before[at-1] {
				put(int(at - 1))
			}
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
