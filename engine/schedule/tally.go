// SPDX-License-Identifier: Apache-2.0

package schedule

import "github.com/karve-dev/karve/engine/bitset"

// tally holds a count for each of many places. Counts change together, 64 at a time: the i-th set
// has the places whose count has bit i set.
type tally []bitset.Set

// add adds n, which may be negative, to the count of each place.
func (t *tally) add(places *bitset.Sparse, n int) {
	for bit, left := 0, max(n, -n); left > 0; bit, left = bit+1, left>>1 {
		if left&1 != 0 {
			t.addBit(places, bit, n > 0)
		}
	}
}

// addBit adds 1<<bit to the count of each place, or subtracts it.
func (t *tally) addBit(places *bitset.Sparse, bit int, up bool) {
	for word, carry := range places.Words() {
		for i := bit; carry != 0 && i < 64; i++ {
			had := t.word(i, word)
			before := *had
			*had ^= carry
			if up {
				carry &= before
			} else {
				carry &^= before
			}
		}
	}
}

// word is a word of the i-th set.
func (t *tally) word(i, word int) *uint64 {
	for len(*t) <= i {
		*t = append(*t, nil)
	}
	set := &(*t)[i]
	for len(*set) <= word {
		*set = append(*set, 0)
	}
	return &(*set)[word]
}

// at is the count of a place.
func (t *tally) at(place int) int {
	if t == nil {
		return 0
	}
	n := uint64(0)
	for i, set := range *t {
		if set.Has(place) {
			n |= 1 << i
		}
	}
	return int(n)
}
