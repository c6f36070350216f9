// SPDX-License-Identifier: Apache-2.0

// Package bitset holds sets of small non-negative integers: a Set as words of bits, such as the
// offerings of a catalog, and a Sparse where most sets have few of many integers, such as the
// selectors of a pod class. The zero Set is empty.
//
// Methods that combine two sets return a new one, except those whose comment says that they
// change the receiver. A function that has returned a Set does not change it afterwards.
package bitset

import (
	"encoding/binary"
	"iter"
	"math/bits"
)

// Set is a set of integers; trailing words may be zero.
type Set []uint64

// Of returns the set of the given members.
func Of(members ...int) Set {
	var s Set
	for _, i := range members {
		s.Put(i)
	}
	return s
}

// Upto returns the set {0, …, n-1}.
func Upto(n int) Set {
	s := make(Set, (n+63)/64)
	for i := range s {
		s[i] = ^uint64(0)
	}
	if n%64 != 0 {
		s[len(s)-1] = 1<<(n%64) - 1
	}
	return s
}

// Put adds i to the receiver.
func (s *Set) Put(i int) {
	if missing := i/64 + 1 - len(*s); missing > 0 {
		*s = append(*s, make(Set, missing)...)
	}
	(*s)[i/64] |= 1 << (i % 64)
}

// Drop removes i from the receiver.
func (s Set) Drop(i int) {
	if i/64 < len(s) {
		s[i/64] &^= 1 << (i % 64)
	}
}

// Has reports whether i is a member.
func (s Set) Has(i int) bool {
	return i/64 < len(s) && s[i/64]&(1<<(i%64)) != 0
}

// Clone returns a copy that may be changed.
func (s Set) Clone() Set { return append(Set(nil), s...) }

// Copy makes the receiver equal to o, reusing its memory.
func (s *Set) Copy(o Set) { *s = append((*s)[:0], o...) }

// And returns the members that are in both.
func (s Set) And(o Set) Set {
	out := make(Set, min(len(s), len(o)))
	for i := range out {
		out[i] = s[i] & o[i]
	}
	return out
}

// Keep removes the receiver's members that are not in o.
func (s Set) Keep(o Set) {
	n := min(len(s), len(o))
	for i, w := range o[:n] {
		s[i] &= w
	}
	clear(s[n:])
}

// DropAll removes the receiver's members that are in o.
func (s Set) DropAll(o Set) {
	for i := range min(len(s), len(o)) {
		s[i] &^= o[i]
	}
}

// Or returns the members that are in either.
func (s Set) Or(o Set) Set {
	if len(s) < len(o) {
		s, o = o, s
	}
	out := s.Clone()
	for i, w := range o {
		out[i] |= w
	}
	return out
}

// Merge adds the members of o to the receiver.
func (s *Set) Merge(o Set) {
	n := min(len(*s), len(o))
	for i, w := range o[:n] {
		(*s)[i] |= w
	}
	*s = append(*s, o[n:]...)
}

// MergeCommon adds the members that are in both a and b.
func (s *Set) MergeCommon(a, b Set) {
	n := min(len(a), len(b))
	for len(*s) < n {
		*s = append(*s, 0)
	}
	for i := range n {
		(*s)[i] |= a[i] & b[i]
	}
}

// Minus returns the members of s that are not in o.
func (s Set) Minus(o Set) Set {
	out := s.Clone()
	out.DropAll(o)
	return out
}

// Len counts the members.
func (s Set) Len() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// Empty reports whether the set has no members.
func (s Set) Empty() bool {
	for _, w := range s {
		if w != 0 {
			return false
		}
	}
	return true
}

// Intersects reports whether s and o share a member.
func (s Set) Intersects(o Set) bool {
	for i := range min(len(s), len(o)) {
		if s[i]&o[i] != 0 {
			return true
		}
	}
	return false
}

// SubsetOf reports whether every member of s is a member of o.
func (s Set) SubsetOf(o Set) bool {
	for i, w := range s {
		if i < len(o) {
			w &^= o[i]
		}
		if w != 0 {
			return false
		}
	}
	return true
}

// Append appends to b a map key for the set; equal sets have equal keys.
func (s Set) Append(b []byte) []byte {
	for len(s) > 0 && s[len(s)-1] == 0 {
		s = s[:len(s)-1]
	}
	for _, w := range s {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

// Equal reports whether both have the same members.
func (s Set) Equal(o Set) bool {
	if len(s) < len(o) {
		s, o = o, s
	}
	for i, w := range s {
		if i < len(o) && w != o[i] || i >= len(o) && w != 0 {
			return false
		}
	}
	return true
}

// First is the least member; -1 when there is none.
func (s Set) First() int {
	for i := range s.All() {
		return i
	}
	return -1
}

// Next is the least member that is i or more; -1 when there is none.
func (s Set) Next(i int) int {
	at := i / 64
	if at >= len(s) {
		return -1
	}
	for w := s[at] &^ (1<<(i%64) - 1); ; w = s[at] {
		if w != 0 {
			return at*64 + bits.TrailingZeros64(w)
		}
		if at++; at == len(s) {
			return -1
		}
	}
}

// All yields the members in ascending order.
func (s Set) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, w := range s {
			for w != 0 {
				if !yield(i*64 + bits.TrailingZeros64(w)) {
					return
				}
				w &= w - 1
			}
		}
	}
}
