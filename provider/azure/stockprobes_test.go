package azure

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// Rule REFUSAL-3.
func TestWindowsOpenWithProof(t *testing.T) {
	now := time.Unix(0, 0)
	p := newStockProbes(func() time.Time { return now })
	d4, e4 := stockKey{"d4", "1", "spot"}, stockKey{"e4", "1", "spot"}
	next := 0
	var mine []string
	fill := func(on stockKey) (n int) {
		for n < 1000 {
			name := fmt.Sprint("m", next)
			if next++; !p.take(name, on) {
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
			t.Errorf("%s: %d machines are ventured, want %d", what, got, want)
		}
	}
	want("an unknown offer", fill(d4), 8)
	want("the same again", fill(d4), 0)
	want("another", fill(e4), 8)
	for _, name := range mine[:4] {
		p.proven(name)
	}
	want("half of the first came up", fill(d4), 8)
	p.withdraw(mine[4])
	want("one was not asked for", fill(d4), 1)
	p.proven("stranger")
	want("who ventured nothing proves nothing", fill(d4), 0)

	now = now.Add(proof)
	want("all others are long on their way", fill(d4), 24)
	p.lost(mine[len(mine)-1])
	want("one was refused", fill(d4), 0)
	now = now.Add(proof)
	want("and the rest was not", fill(d4), 8+23)

	p.take(mine[0], d4)
	p.take(mine[0], e4)
	p.take(mine[0], e4)
	if n := len(p.odds[e4].unproven) + len(p.odds[d4].unproven); n != len(p.risks) {
		t.Errorf("a machine runs several risks: %d in windows, %d in all", n, len(p.risks))
	}
	now = now.Add(proofHolds)
	want("after an hour", fill(stockKey{"f4", "1", "spot"}), 8)
	if len(p.odds) != 1 || len(p.risks) != 8 {
		t.Errorf("%d offers and %d machines are remembered", len(p.odds), len(p.risks))
	}
}

// A burst of launches requests one in twenty of what it wants of an offering, and eight again
// once that was refused.
//
// Rule REFUSAL-3.
func TestCrowdsVentureMore(t *testing.T) {
	now := time.Unix(0, 0)
	p := newStockProbes(func() time.Time { return now })
	on := stockKey{"d4", "1", "spot"}
	var ventured []string
	all := func() (n int) {
		for i := range 500 {
			if name := fmt.Sprint("m", i); !slices.Contains(ventured, name) && p.take(name, on) {
				ventured = append(ventured, name)
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
			t.Errorf("%s: %d are ventured, want %d", round.what, n, round.want)
		}
	}
	p.lost(ventured[0])
	if n := all(); n != 0 {
		t.Errorf("%d more are ventured after a refusal", n)
	}
	now = now.Add(proof)
	if n := all(); n < firstWindow || n > 2*len(ventured) {
		t.Errorf("%d are ventured once the others are long on their way", n)
	}
}
