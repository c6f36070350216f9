// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
)

// residents records, for the pods on a node, what the rules of pods that join them need. When every
// pod avoids all others there are as many terms as pods, so selectors are compared as sets of IDs.
// Virtual pods are placed last, so real pods meet none here.
type residents struct {
	selectedBy selectorUnion // IDs of the selectors that select some of them
	repels     bitset.Set    // IDs of the selectors that some of them keep away
	// mostOf is the lowest limit that rules of some of them put on a counter. avoiding is set when
	// some of them may keep others away by more than repels says.
	mostOf   numbersByID
	avoiding bool
}

// selectorUnion is the IDs of selectors that select any of some pods. It shares the set of the first pods:
// most nodes get pods of one kind, and there may be as many nodes as selectors.
type selectorUnion struct {
	first bitset.Sparse
	rest  bitset.Set
}

func (u *selectorUnion) merge(ids *bitset.Sparse) {
	if u.first.Empty() {
		u.first = *ids
		return
	}
	ids.MergeInto(&u.rest)
}

func (u *selectorUnion) has(id int) bool { return u.first.Has(id) || u.rest.Has(id) }

func (u *selectorUnion) clear() {
	u.first = bitset.Sparse{}
	clear(u.rest)
}

// keepOff reports whether anti-affinity keeps pods with the rules off the node.
func (r *residents) keepOff(rules *nodeRules) bool {
	return rules.mayBeRepelled && rules.selectedBy.Intersects(r.repels) || slices.ContainsFunc(rules.avoids, r.selectedBy.has)
}

// mayLimit reports whether rules of the pods on the node may allow fewer than n more pods with the
// rules there, whichever are bound first. count reads the node's counters.
func (r *residents) mayLimit(rules *nodeRules, n int, count func(int) int) bool {
	if r.avoiding {
		return true
	}
	if len(r.mostOf) < len(rules.increments) {
		for _, most := range r.mostOf {
			if rules.bumps(most.id) && most.n-count(most.id) < n {
				return true
			}
		}
		return false
	}
	return slices.ContainsFunc(rules.increments, func(c int) bool {
		i, limited := r.mostOf.find(c)
		return limited && r.mostOf[i].n-count(c) < n
	})
}

// add adds pods.
func (r *residents) add(rules *nodeRules) {
	r.selectedBy.merge(&rules.selectedBy)
	for _, g := range rules.repels {
		r.repels.Put(g)
	}
	for _, c := range rules.maxCounts {
		r.mostOf.limit(c.counter, c.max)
	}
	r.avoiding = r.avoiding || len(rules.avoids) > 0 || rules.mayBeRepelled
}

func (r *residents) clone() residents {
	selectedBy := selectorUnion{r.selectedBy.first, r.selectedBy.rest.Clone()}
	return residents{selectedBy: selectedBy, repels: r.repels.Clone(), mostOf: slices.Clone(r.mostOf), avoiding: r.avoiding}
}

func (r *residents) clear() {
	r.selectedBy.clear()
	clear(r.repels)
	r.mostOf = r.mostOf[:0]
	r.avoiding = false
}
