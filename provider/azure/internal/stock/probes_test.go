// SPDX-License-Identifier: Apache-2.0

package stock

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// Rule REFUSAL-3.
func TestWindowsOpenWithProof(t *testing.T) {
	now := time.Unix(0, 0)
	p := NewProbes(func() time.Time { return now })
	d4, e4 := Key{"d4", "1", "spot"}, Key{"e4", "1", "spot"}
	next := 0
	var mine []string
	fill := func(key Key) (n int) {
		for n < 1000 {
			name := fmt.Sprint("m", next)
			if next++; !p.Reserve(name, key) {
				return n
			}
			mine = append(mine, name)
			n++
		}
		return n
	}
	want := func(what string, got, want int) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %d VMs are requested, want %d", what, got, want)
		}
	}
	want("an unknown offer", fill(d4), 8)
	want("the same again", fill(d4), 0)
	want("another", fill(e4), 8)
	for _, name := range mine[:4] {
		p.Proven(name)
	}
	want("half of the first came up", fill(d4), 8)
	p.Withdraw(mine[4])
	want("one was not asked for", fill(d4), 1)
	p.Proven("stranger")
	want("a VM that was not requested proves nothing", fill(d4), 0)

	now = now.Add(provenAfter)
	want("all others are long on their way", fill(d4), 24)
	p.Refused(mine[len(mine)-1])
	want("one was refused", fill(d4), 0)
	now = now.Add(provenAfter)
	want("and the rest was not", fill(d4), 8+23)

	p.Reserve(mine[0], d4)
	p.Reserve(mine[0], e4)
	p.Reserve(mine[0], e4)
	if n := len(p.windows[e4].unproven) + len(p.windows[d4].unproven); n != len(p.unproven) {
		t.Errorf("a VM has several places: %d in windows, %d in all", n, len(p.unproven))
	}
	now = now.Add(windowTTL)
	want("after an hour", fill(Key{"f4", "1", "spot"}), 8)
	if len(p.windows) != 1 || len(p.unproven) != 8 {
		t.Errorf("%d offerings and %d VMs are remembered", len(p.windows), len(p.unproven))
	}
}

// A burst of launches requests one in twenty of what it wants of an offering, and eight again
// once that was refused.
//
// Rule REFUSAL-3.
func TestWindowGrowsWithDemand(t *testing.T) {
	now := time.Unix(0, 0)
	p := NewProbes(func() time.Time { return now })
	key := Key{"d4", "1", "spot"}
	var requested []string
	all := func() (n int) {
		for i := range 500 {
			if name := fmt.Sprint("m", i); !slices.Contains(requested, name) && p.Reserve(name, key) {
				requested = append(requested, name)
				n++
			}
		}
		return n
	}
	for _, round := range []struct {
		what string
		want int
	}{{"one after the other", 23}, {"once more", 0}} { // 23 is one in twenty of the 477 that are turned away
		if n := all(); n != round.want {
			t.Errorf("%s: %d are requested, want %d", round.what, n, round.want)
		}
	}
	p.Refused(requested[0])
	if n := all(); n != 0 {
		t.Errorf("%d more are requested after a refusal", n)
	}
	now = now.Add(provenAfter)
	if n := all(); n < firstWindow || n > 2*len(requested) {
		t.Errorf("%d are requested once the others are long on their way", n)
	}
}
