// SPDX-License-Identifier: Apache-2.0

package bitset

import (
	"iter"
	"math/bits"
	"slices"
)

// Sparse is a set that most often has few members, however large they are: a list while they are
// few, bits once they are many. Where each of n things relates to one or two of n others, sets of
// bits alone would take the square of n. The zero Sparse is empty.
type Sparse struct {
	few  []int32 // in ascending order; none once there are bits
	many Set     // without a word while few lists the members
}

// mostFew is how many members a Sparse lists before it keeps bits.
const mostFew = 64

// Put adds i to the receiver.
func (s *Sparse) Put(i int) {
	if len(s.many) > 0 {
		s.many.Put(i)
		return
	}
	at, found := len(s.few), false
	if at > 0 && s.few[at-1] >= int32(i) {
		at, found = slices.BinarySearch(s.few, int32(i))
	}
	switch {
	case found:
	case len(s.few) < mostFew:
		s.few = slices.Insert(s.few, at, int32(i))
	default:
		s.keepBits()
		s.many.Put(i)
	}
}

// keepBits has the receiver keep bits instead of a list.
func (s *Sparse) keepBits() {
	for _, i := range s.few {
		s.many.Put(int(i))
	}
	s.few = s.few[:0]
}

// Drop removes i from the receiver.
func (s *Sparse) Drop(i int) {
	s.many.Drop(i)
	if at, found := slices.BinarySearch(s.few, int32(i)); found {
		s.few = slices.Delete(s.few, at, at+1)
	}
}

// DropAll removes the receiver's members that are in o.
func (s *Sparse) DropAll(o Set) {
	s.many.DropAll(o)
	s.few = slices.DeleteFunc(s.few, func(i int32) bool { return o.Has(int(i)) })
}

// Clear removes all members from the receiver.
func (s *Sparse) Clear() { s.few, s.many = s.few[:0], s.many[:0] }

// Copy makes the receiver equal to o, reusing its memory.
func (s *Sparse) Copy(o *Sparse) {
	s.few, s.many = append(s.few[:0], o.few...), append(s.many[:0], o.many...)
}

// Has reports whether i is a member.
func (s *Sparse) Has(i int) bool {
	if len(s.many) > 0 {
		return s.many.Has(i)
	}
	if len(s.few) <= 1 {
		return len(s.few) == 1 && s.few[0] == int32(i)
	}
	_, found := slices.BinarySearch(s.few, int32(i))
	return found
}

// Len counts the members.
func (s *Sparse) Len() int { return len(s.few) + s.many.Len() }

// Empty reports whether the set has no members.
func (s *Sparse) Empty() bool { return len(s.few) == 0 && s.many.Empty() }

// All yields the members in ascending order. One may be dropped while it is yielded.
func (s *Sparse) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for at := 0; at < len(s.few); {
			i := s.few[at]
			if !yield(int(i)) {
				return
			}
			if at < len(s.few) && s.few[at] == i {
				at++
			}
		}
		for i := range s.many.All() {
			if !yield(i) {
				return
			}
		}
	}
}

// AllIn yields the members that are in o, too, in ascending order. One may be dropped from o while it
// is yielded.
func (s *Sparse) AllIn(o Set) iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, i := range s.few {
			if o.Has(int(i)) && !yield(int(i)) {
				return
			}
		}
		for at := range min(len(s.many), len(o)) {
			for w := s.many[at] & o[at]; w != 0; w &= w - 1 {
				if !yield(at*64 + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}

// Lacking yields the members of o that are not in the receiver, in ascending order.
func (s *Sparse) Lacking(o Set) iter.Seq[int] {
	return func(yield func(int) bool) {
		for at, w := range o {
			if at < len(s.many) {
				w &^= s.many[at]
			}
			for ; w != 0; w &= w - 1 {
				i := at*64 + bits.TrailingZeros64(w)
				if (len(s.many) > 0 || !s.Has(i)) && !yield(i) {
					return
				}
			}
		}
	}
}

// Words yields the words of the set as Set has them, those that are not zero, each with its
// position.
func (s *Sparse) Words() iter.Seq2[int, uint64] {
	return func(yield func(int, uint64) bool) {
		for from := 0; from < len(s.few); {
			at, w := int(s.few[from])/64, uint64(0)
			for ; from < len(s.few) && int(s.few[from])/64 == at; from++ {
				w |= 1 << (s.few[from] % 64)
			}
			if !yield(at, w) {
				return
			}
		}
		for at, w := range s.many {
			if w != 0 && !yield(at, w) {
				return
			}
		}
	}
}

// Clone returns a copy that may be changed.
func (s *Sparse) Clone() Sparse {
	return Sparse{few: slices.Clone(s.few), many: s.many.Clone()}
}

// And returns the members that are in both.
func (s *Sparse) And(o *Sparse) Sparse {
	switch {
	case len(o.many) > 0:
		return s.In(o.many)
	case len(s.many) > 0:
		return o.In(s.many)
	}
	return s.filter(o.Has)
}

// In returns the members that are in o, too.
func (s *Sparse) In(o Set) Sparse {
	if len(s.many) > 0 {
		return Sparse{many: s.many.And(o)}
	}
	return s.filter(o.Has)
}

// filter returns the members for which f holds, of a receiver that lists them.
func (s *Sparse) filter(f func(int) bool) Sparse {
	var out Sparse
	for _, i := range s.few {
		if f(int(i)) {
			out.few = append(out.few, i)
		}
	}
	return out
}

// Or returns the members that are in either.
func (s *Sparse) Or(o *Sparse) Sparse {
	if len(s.many) < len(o.many) {
		s, o = o, s
	}
	out := s.Clone()
	out.Merge(o)
	return out
}

// Merge adds the members of o to the receiver.
func (s *Sparse) Merge(o *Sparse) {
	if len(o.many) > 0 {
		s.keepBits()
		s.many.Merge(o.many)
		return
	}
	for _, i := range o.few {
		s.Put(int(i))
	}
}

// Minus returns the members of s that are not in o.
func (s *Sparse) Minus(o *Sparse) Sparse {
	if len(s.many) == 0 {
		return s.filter(func(i int) bool { return !o.Has(i) })
	}
	out := s.Clone()
	o.DropFrom(out.many)
	return out
}

// Equal reports whether both have the same members.
func (s *Sparse) Equal(o *Sparse) bool {
	if len(s.many)+len(o.many) == 0 {
		return slices.Equal(s.few, o.few)
	}
	if s.Len() != o.Len() {
		return false
	}
	for i := range s.All() {
		if !o.Has(i) {
			return false
		}
	}
	return true
}

// Intersects reports whether s and o share a member.
func (s *Sparse) Intersects(o Set) bool {
	return s.many.Intersects(o) || slices.ContainsFunc(s.few, func(i int32) bool { return o.Has(int(i)) })
}

// MergeInto adds the members to o.
func (s *Sparse) MergeInto(o *Set) {
	o.Merge(s.many)
	for _, i := range s.few {
		o.Put(int(i))
	}
}

// CopyTo makes o equal to s, reusing its memory.
func (s *Sparse) CopyTo(o *Set) {
	*o = (*o)[:0]
	s.MergeInto(o)
}

// DropFrom removes the members from o.
func (s *Sparse) DropFrom(o Set) {
	o.DropAll(s.many)
	for _, i := range s.few {
		o.Drop(int(i))
	}
}

// ToggleIn removes the members from o that are in it, and adds the others.
func (s *Sparse) ToggleIn(o *Set) {
	for at, w := range s.Words() {
		for len(*o) <= at {
			*o = append(*o, 0)
		}
		(*o)[at] ^= w
	}
}

// Assign makes the receiver equal to o, reusing its memory.
func (s *Sparse) Assign(o Set) {
	s.Clear()
	if o.Len() > mostFew {
		s.many.Copy(o)
		return
	}
	for i := range o.All() {
		s.few = append(s.few, int32(i))
	}
}
