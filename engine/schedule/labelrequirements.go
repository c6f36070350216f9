// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"slices"
	"strings"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/constraint"
)

// labelRequirements are those of a node's pool and pods together. What a pod adds when it joins
// others is kept as a step from what they require. Pods may each have a requirement on a label of
// their own: a set for every pod that joins would take the square of their number.
type labelRequirements struct {
	from *labelRequirements // nil for those of a NodePool alone
	step constraint.Set     // in place of requirements on the same labels before
	keys bitset.Set         // numbers of the labels that this step or one before is about
	hash uint64             // the same for equal ones
	all  constraint.Set     // those of a NodePool alone; of others see set
}

// ofPool are the label requirements of a NodePool alone.
func ofPool(set constraint.Set) *labelRequirements {
	return &labelRequirements{hash: set.Hash(), all: set}
}

// with returns r with the requirements in joined, in place of those before on the same labels.
func (r *labelRequirements) with(before, joined constraint.Set) *labelRequirements {
	step := joined.Without(before)
	if len(step) == 0 {
		return r
	}
	next := &labelRequirements{from: r, step: step, keys: r.keys.Clone(), hash: r.hash + step.Hash() - before.On(step).Hash()}
	for _, q := range step {
		next.keys.Put(q.Key.Number())
	}
	return next
}

// on returns the requirements on labels that o has requirements on.
func (r *labelRequirements) on(o constraint.Set) constraint.Set {
	var out constraint.Set
	for _, q := range o {
		if have, ok := r.get(q.Key); ok {
			out = append(out, have)
		}
	}
	return out
}

// get returns the requirement on k, if there is one.
func (r *labelRequirements) get(k *constraint.Key) (constraint.Requirement, bool) {
	for ; r.from != nil; r = r.from {
		if !r.keys.Has(k.Number()) {
			continue
		}
		if q, ok := r.step.Get(k); ok {
			return q, true
		}
	}
	return r.all.Get(k)
}

// set is all of the requirements.
func (r *labelRequirements) set() constraint.Set {
	if r.from == nil || r.all != nil {
		return r.all
	}
	var seen bitset.Set
	var steps constraint.Set
	at := r
	for ; at.from != nil; at = at.from {
		for _, q := range at.step {
			if !seen.Has(q.Key.Number()) {
				seen.Put(q.Key.Number())
				steps = append(steps, q)
			}
		}
	}
	slices.SortFunc(steps, func(a, b constraint.Requirement) int { return strings.Compare(a.Key.Name, b.Key.Name) })
	r.all = at.all.Replaced(steps)
	return r.all
}

// equal reports whether both are the same requirements.
func (r *labelRequirements) equal(o *labelRequirements) bool {
	return r == o || r.hash == o.hash && r.set().Equal(o.set())
}
