// SPDX-License-Identifier: Apache-2.0

package cluster

import "github.com/karve-dev/karve/engine/bitset"

// idSet is a set of IDs of selectors: a list while they are few, bits when they are many. Most
// values of labels are in the requirements of one selector, and some are in those of all.
type idSet struct {
	few  []int32 // in no order, each once
	many bitset.Set
}

// mostFew is how many IDs an idSet lists before it keeps bits.
const mostFew = 64

// put adds an ID that is not a member yet.
func (x *idSet) put(id int) {
	if x.many == nil && len(x.few) < mostFew {
		x.few = append(x.few, int32(id))
		return
	}
	for _, listed := range x.few {
		x.many.Put(int(listed))
	}
	x.few = nil
	x.many.Put(id)
}

func (x *idSet) drop(id int) {
	x.many.Drop(id)
	x.few = removeFrom(x.few, int32(id))
}

func (x *idSet) empty() bool { return len(x.few) == 0 && x.many.Empty() }

// mergeInto adds the members to a set.
func (x *idSet) mergeInto(s *bitset.Set) {
	s.Merge(x.many)
	for _, id := range x.few {
		s.Put(int(id))
	}
}

// dropFrom removes the members from a set.
func (x *idSet) dropFrom(s bitset.Set) {
	s.DropAll(x.many)
	for _, id := range x.few {
		s.Drop(int(id))
	}
}

// toggleIn removes the members from a set that has them, and adds the others.
func (x *idSet) toggleIn(s *bitset.Set) {
	for len(*s) < len(x.many) {
		*s = append(*s, 0)
	}
	for i, w := range x.many {
		(*s)[i] ^= w
	}
	for _, id := range x.few {
		if s.Has(int(id)) {
			s.Drop(int(id))
			continue
		}
		s.Put(int(id))
	}
}

// copyTo makes a set equal, reusing its memory.
func (x *idSet) copyTo(s *bitset.Set) {
	*s = (*s)[:0]
	x.mergeInto(s)
}
