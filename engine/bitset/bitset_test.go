// SPDX-License-Identifier: Apache-2.0

package bitset_test

import (
	"testing"

	"github.com/karve-dev/karve/engine/bitset"
)

func TestNext(t *testing.T) {
	s := bitset.Of(0, 3, 63, 64, 200)
	for _, c := range []struct{ from, want int }{{0, 0}, {1, 3}, {3, 3}, {4, 63}, {63, 63}, {64, 64}, {65, 200}, {200, 200}, {201, -1}, {1000, -1}} {
		if got := s.Next(c.from); got != c.want {
			t.Errorf("Next(%d) is %d, want %d", c.from, got, c.want)
		}
	}
	if got := (bitset.Set)(nil).Next(0); got != -1 {
		t.Errorf("the empty set has a member %d", got)
	}
}

func TestMergeCommon(t *testing.T) {
	sets := []bitset.Set{nil, bitset.Of(1), bitset.Of(1, 70), bitset.Of(1, 2, 70, 200), bitset.Of(200)}
	for _, s := range sets {
		for _, a := range sets {
			for _, b := range sets {
				got, want := s.Clone(), s.Or(a.And(b))
				if got.MergeCommon(a, b); !got.Equal(want) {
					t.Errorf("%v with what is in %v and %v is %v, want %v", s, a, b, got, want)
				}
			}
		}
	}
}
