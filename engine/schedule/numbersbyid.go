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

// makeNumbersByID makes two empty lists, for about so many numbers each, in one piece of memory.
func makeNumbersByID(n, m int) (first, second numbersByID) {
	n, m = min(n, manyNumbers), min(m, manyNumbers)
	if n+m == 0 {
		return nil, nil
	}
	both := make(numbersByID, n+m)
	return both[:0:n], both[n : n : n+m]
}

// manyNumbers is more than most lists get.
const manyNumbers = 32

// at is the number of the ID; 0 where there is none.
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

// limit makes the number of the ID at most n.
func (x *numbersByID) limit(id, n int) {
	i, ok := x.find(id)
	if !ok {
		*x = slices.Insert(*x, i, numberOf{id, n})
	}
	(*x)[i].n = min((*x)[i].n, n)
}

// find returns the index of the ID, or where it would be. A short list is walked through: that is faster
// than to search it.
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
