package azure

import (
	"fmt"
	"testing"
	"time"
)

// Rule 240.
func TestWindowsOpenWithProof(t *testing.T) {
	now := time.Unix(0, 0)
	p := newPrudence(func() time.Time { return now })
	d4, e4 := venture{"d4", "1", "spot"}, venture{"e4", "1", "spot"}
	next := 0
	var mine []string
	fill := func(on venture) (n int) {
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
	want("after an hour", fill(venture{"f4", "1", "spot"}), 8)
	if len(p.odds) != 1 || len(p.risks) != 8 {
		t.Errorf("%d offers and %d machines are remembered", len(p.odds), len(p.risks))
	}
}
