// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"cmp"
	"slices"
)

// numbersByID are numbers by the ID of a label's value or of a counter, sorted by ID. Most such lists
// are short, and a map takes several times their memory.
type numbersByID []numberOf

type numberOf struct{ id, n int }

// twoNumbersByID makes two empty lists with room for about so many numbers, in one piece of memory.
func twoNumbersByID(n, m int) (first, second numbersByID) {
	n, m = min(n, mostAhead), min(m, mostAhead)
	if n+m == 0 {
		return nil, nil
	}
	both := make(numbersByID, n+m)
	return both[:0:n], both[n : n : n+m]
}

// mostAhead is for how many numbers a list takes memory before they are added.
const mostAhead = 32

// at is the number of the ID; 0 where there is none. Kept as a value, it sees no later additions.
func (x numbersByID) at(id int) int {
	if i, ok := x.find(id); ok {
		return x[i].n
	}
	return 0
}

// add adds n to the number of the ID.
func (x *numbersByID) add(id, n int) {
	i, ok := x.find(id)
	if !ok {
		*x = slices.Insert(*x, i, numberOf{id: id})
	}
	(*x)[i].n += n
}

// addEach adds n to the numbers of the IDs, which are sorted. Many of them are merged into the list,
// from its end: one after the other, each that is new would move those above it.
func (x *numbersByID) addEach(ids []int, n int) {
	if len(ids) <= shortList {
		for _, id := range ids {
			x.add(id, n)
		}
		return
	}
	missing := len(ids)
	for _, id := range ids {
		if _, ok := x.find(id); ok {
			missing--
		}
	}
	from, list := len(*x)-1, slices.Grow(*x, missing)[:len(*x)+missing]
	for at, i := len(list)-1, len(ids)-1; i >= 0; at-- {
		switch {
		case from < 0 || list[from].id < ids[i]:
			list[at], i = numberOf{ids[i], n}, i-1
		case list[from].id == ids[i]:
			list[at], from, i = numberOf{ids[i], list[from].n + n}, from-1, i-1
		default:
			list[at], from = list[from], from-1
		}
	}
	*x = list
}

// limit makes the number of the ID at most n. An ID that has none gets n.
func (x *numbersByID) limit(id, n int) {
	i, ok := x.find(id)
	if !ok {
		*x = slices.Insert(*x, i, numberOf{id, n})
		return
	}
	(*x)[i].n = min((*x)[i].n, n)
}

// find returns the index of the ID, or where it would be. A short list is walked through, which is
// faster than to search it.
func (x numbersByID) find(id int) (int, bool) {
	if n := len(x); n > 0 && x[n-1].id < id {
		return n, false // most IDs are added in their order
	}
	if len(x) > shortList {
		return slices.BinarySearchFunc(x, id, func(o numberOf, id int) int { return cmp.Compare(o.id, id) })
	}
	for i := range x {
		if x[i].id >= id {
			return i, x[i].id == id
		}
	}
	return len(x), false
}

// shortList is how many numbers are walked through.
const shortList = 16
