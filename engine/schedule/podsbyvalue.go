// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"cmp"
	"slices"
)

// podsByValue are how many pods count, by value of a label, sorted by value. Most have few values, for
// which a map takes several times the memory.
type podsByValue []podsAt

type podsAt struct{ value, n int }

// at is the count for the value; 0 where there is none.
func (c podsByValue) at(v int) int {
	if i, ok := c.find(v); ok {
		return c[i].n
	}
	return 0
}

// add adds n to the count for the value.
func (c *podsByValue) add(v, n int) {
	i, ok := c.find(v)
	if !ok {
		*c = slices.Insert(*c, i, podsAt{value: v})
	}
	(*c)[i].n += n
}

func (c podsByValue) find(v int) (int, bool) {
	return slices.BinarySearchFunc(c, v, func(x podsAt, v int) int { return cmp.Compare(x.value, v) })
}
