// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/constraint"
)

// PreferredTerm is a preferred term of node affinity, compiled.
type PreferredTerm struct {
	Weight int32 // 1 to 100
	Term   constraint.Set

	key string // identifies the term
}

// UsesHostname reports whether the term looks at the hostname.
func (t PreferredTerm) UsesHostname() bool {
	return slices.ContainsFunc(t.Term, func(q constraint.Requirement) bool { return q.Key.Name == LabelHostname })
}

// preferredTerms compiles preferred terms of node affinity, the heaviest first. It ignores a
// term that is invalid, is empty or has no weight: such a term must not keep a pod from
// being planned for.
func preferredTerms(interner *constraint.Interner, terms []PreferredSchedulingTerm) []PreferredTerm {
	var out []PreferredTerm
	for _, t := range terms {
		if t.Weight <= 0 || len(t.Term) == 0 {
			continue
		}
		set, err := interner.Set(t.Term)
		if err != nil {
			continue
		}
		var s signature
		s.term(t.Term)
		out = append(out, PreferredTerm{Weight: t.Weight, Term: set, key: string(s.bytes)})
	}
	slices.SortStableFunc(out, func(x, y PreferredTerm) int { return cmp.Compare(y.Weight, x.Weight) })
	return out
}

// Requiring is the class's PodShape with some preferences made requirements: the terms of
// Preferred with these indices, ascending, and, with avoidSoft, to avoid nodes with
// PreferNoSchedule taints that the pods do not tolerate. PoolCatalog.Compatible caches its
// result as for any other shape.
func (c *PodClass) Requiring(terms []int, avoidSoft bool) *PodShape {
	if len(terms) == 0 && !avoidSoft {
		return c.PodShape
	}
	key := []byte{0}
	if avoidSoft {
		key[0] = 1
	}
	for _, i := range terms {
		key = binary.AppendUvarint(key, uint64(len(c.Preferred[i].key)))
		key = append(key, c.Preferred[i].key...)
	}
	if v := c.PodShape.variants[string(key)]; v != nil {
		return v
	}
	v := c.PodShape.narrowed(c.Preferred, terms)
	v.AvoidSoft = avoidSoft
	if c.PodShape.variants == nil {
		c.PodShape.variants = map[string]*PodShape{}
	}
	c.PodShape.variants[string(key)] = v
	return v
}

// narrowed is a copy of the shape whose alternatives also meet the terms. The pods' own
// requirements do not change, because spread constraints look only at those.
func (s *PodShape) narrowed(preferred []PreferredTerm, terms []int) *PodShape {
	v := *s
	v.compatible, v.matchingOwn, v.variants, v.Keys = map[*PoolCatalog]*CompatibleOfferings{}, map[*PoolCatalog]bitset.Set{}, nil, nil
	v.Alternatives = slices.Clone(s.Alternatives)
	for _, i := range terms {
		for at, alt := range v.Alternatives {
			v.Alternatives[at] = alt.And(preferred[i].Term)
		}
	}
	v.setKeys()
	return &v
}

// LacksSoftToleration reports whether one of the taints is a PreferNoSchedule taint that the
// pods do not tolerate.
func (s *PodShape) LacksSoftToleration(taints []Taint) bool {
	for _, t := range taints {
		if t.Effect != PreferNoSchedule {
			continue
		}
		if _, ok := tolerates(s.Tolerations, []Taint{t}, true); !ok {
			return true
		}
	}
	return false
}
