// SPDX-License-Identifier: Apache-2.0

package constraint

import (
	"cmp"
	"slices"
)

// Set is a conjunction of requirements, at most one per key, sorted by key name. A Set is
// never changed once it has been returned. The zero Set admits everything.
type Set []Requirement

// Set compiles rules into one Set. It returns an error for the first invalid rule.
func (in *Interner) Set(rules []Rule) (Set, error) {
	out := slices.Grow(Set(nil), len(rules))
	for _, r := range rules {
		q, err := in.Require(r)
		if err != nil {
			return nil, err
		}
		out = append(out, q)
	}
	return out.joined(), nil
}

// joined sorts requirements by key and merges those with the same key, in place. Adding them
// one by one would take quadratic time for thousands of labels.
func (s Set) joined() Set {
	slices.SortStableFunc(s, func(a, b Requirement) int { return cmp.Compare(a.Key.Name, b.Key.Name) })
	out := s[:0]
	for _, q := range s {
		if n := len(out); n > 0 && out[n-1].Key == q.Key {
			out[n-1] = out[n-1].And(q)
			continue
		}
		out = append(out, q)
	}
	return out
}

// Get returns the requirement on k, if there is one.
func (s Set) Get(k *Key) (Requirement, bool) {
	i, ok := s.find(k.Name)
	if !ok {
		return Requirement{}, false
	}
	return s[i], true
}

func (s Set) find(name string) (int, bool) {
	return slices.BinarySearchFunc(s, name, func(q Requirement, name string) int {
		return cmp.Compare(q.Key.Name, name)
	})
}

// With returns s narrowed by one more requirement.
func (s Set) With(q Requirement) Set {
	i, ok := s.find(q.Key.Name)
	if ok {
		out := slices.Clone(s)
		out[i] = s[i].And(q)
		return out
	}
	return slices.Insert(slices.Clone(s), i, q)
}

// And returns the conjunction of both sets.
func (s Set) And(o Set) Set {
	out := make(Set, 0, len(s)+len(o))
	for len(s) > 0 && len(o) > 0 {
		switch c := cmp.Compare(s[0].Key.Name, o[0].Key.Name); {
		case c < 0:
			out, s = append(out, s[0]), s[1:]
		case c > 0:
			out, o = append(out, o[0]), o[1:]
		default:
			out, s, o = append(out, s[0].And(o[0])), s[1:], o[1:]
		}
	}
	return append(append(out, s...), o...)
}

// Replaced returns s with the requirements of o in place of those on the same labels.
func (s Set) Replaced(o Set) Set {
	out := make(Set, 0, len(s)+len(o))
	for _, q := range o {
		i, ok := s.find(q.Key.Name)
		out = append(append(out, s[:i]...), q)
		if ok {
			i++
		}
		s = s[i:]
	}
	return append(out, s...)
}

// Without returns the requirements of s that o does not have, too.
func (s Set) Without(o Set) Set {
	var out Set
	for _, q := range s {
		if i, ok := o.find(q.Key.Name); !ok || !q.equal(o[i]) {
			out = append(out, q)
		}
	}
	return out
}

// Equal reports whether both have the same requirements.
func (s Set) Equal(o Set) bool {
	return slices.EqualFunc(s, o, Requirement.equal)
}

func (q Requirement) equal(o Requirement) bool {
	return q.Key == o.Key && q.except == o.except && q.absent == o.absent && q.bounded == o.bounded &&
		q.low == o.low && q.high == o.high && q.values.Equal(&o.values)
}

// Hash returns a number that is the same for equal sets, and different for most others. It is the
// sum of the hashes of the requirements.
func (s Set) Hash() uint64 {
	var h uint64
	for _, q := range s {
		h += q.hash()
	}
	return h
}

func (q Requirement) hash() uint64 {
	const factor = 0x9e3779b97f4a7c15 // odd, its bits evenly mixed
	var h uint64
	add := func(n uint64) {
		h = (h ^ (n + factor)) * factor
		h ^= h >> 32
	}
	add(uint64(q.Key.number))
	for at, w := range q.values.Words() {
		add(uint64(at))
		add(w)
	}
	for _, set := range []bool{q.except, q.absent, q.bounded} {
		if h <<= 1; set {
			h++
		}
	}
	add(uint64(q.low))
	add(uint64(q.high))
	return h
}

// On returns the requirements of s on labels that o has requirements on.
func (s Set) On(o Set) Set {
	var out Set
	for _, q := range o {
		if i, ok := s.find(q.Key.Name); ok {
			out = append(out, s[i])
		}
	}
	return out
}

// Impossible returns the first requirement, by key, that nothing can meet.
func (s Set) Impossible() (Requirement, bool) {
	for _, q := range s {
		if !q.Possible() {
			return q, true
		}
	}
	return Requirement{}, false
}

// Rules returns s as manifest rules, sorted by key.
func (s Set) Rules() []Rule {
	var rules []Rule
	for _, q := range s {
		rules = append(rules, q.Rules()...)
	}
	return rules
}
