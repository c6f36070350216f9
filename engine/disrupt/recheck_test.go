// SPDX-License-Identifier: Apache-2.0

package disrupt_test

import (
	"slices"
	"testing"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/engine/disrupt/disrupttest"
	"github.com/karve-dev/karve/engine/enginetest"
)

// While nothing changes, a move that was decided remains right, and all moves can still be made
// together as they are then. A few may be refused: where pods spread, a move depends on which
// pods arrive first, and the search looks for a refused move again.
func TestDecidedMovesStayRight(t *testing.T) {
	asked, refused := 0, 0
	for seed := range uint64(3) {
		f := disrupttest.Overprovisioned(seed, 12)
		script := f.Script(&enginetest.Script{Types: f.Types[enginetest.NodeClass], Pools: poolSpecs(f)})
		for pass := range 4 {
			c := f.ForDisruption(disrupttest.Now(), disrupttest.OverprovisionedPools(), disrupt.Settings{SpotToSpot: true})
			w := f.Builder.Snapshot()
			p := disrupt.Search(w, c, disrupt.Cursor{})
			c.Underway = p.Moves
			for i, m := range p.Moves {
				now, kept := disrupt.Recheck(w, c, m)
				if asked++; kept.Because != "" {
					t.Logf("seed %d, pass %d: %v is no longer right: %s %s", seed, pass, m.Nodes, kept.Because, kept.Detail)
					refused++
					continue
				}
				if now.Saves() <= 0 {
					t.Errorf("seed %d: %v costs %s, then %s", seed, m.Nodes, now.PriceBefore, now.PriceAfter)
				}
				c.Underway[i] = now
			}
			if err := checkMoves(f.Script(script), c.Underway); err != nil {
				t.Fatalf("seed %d, pass %d: %v", seed, pass, err)
			}
			if err := f.Apply(c.Underway); err != nil {
				t.Fatal(err)
			}
		}
	}
	if refused*10 > asked {
		t.Errorf("%d of %d moves are refused", refused, asked)
	}
}

// Rule MOVE-2: while nothing changes some move of every plan is still right, so that the same
// move is not decided and refused again and again.
func TestSomeMoveOfEveryPlanIsStillRight(t *testing.T) {
	asked, refused := 0, 0
	for seed := range uint64(300) {
		s := enginetest.WithoutPending(enginetest.Populated(seed, 25))
		f := disrupttest.Of(s)
		for pass := 0; ; pass++ {
			w, c := f.Builder.Snapshot(), f.ForDisruption(disrupttest.Now(), poolsOf(s), disrupt.Settings{SpotToSpot: true})
			c.Underway = disrupt.Search(w, c, disrupt.Cursor{}).Moves
			if len(c.Underway) == 0 {
				break
			}
			asked += len(c.Underway)
			right := stillRight(w, c)
			if refused += len(c.Underway) - len(right); len(right) == 0 {
				t.Fatalf("seed %d, pass %d: of %d moves none is right when looked at again\n%s", seed, pass, len(c.Underway), enginetest.Format(f.Script(s)))
			}
			if err := f.Apply(right); err != nil || pass > 30 {
				t.Fatalf("seed %d, pass %d: %v", seed, pass, err)
			}
		}
	}
	t.Logf("%d of %d moves were refused", refused, asked)
}

// stillRight rechecks the moves under way, one after the other, each with the earlier ones as
// they are then.
func stillRight(w *cluster.Snapshot, c disrupt.Cluster) (right []disrupt.Move) {
	c.Underway = slices.Clone(c.Underway)
	for i, m := range slices.Clone(c.Underway) {
		if now, kept := disrupt.Recheck(w, c, m); kept.Because == "" {
			c.Underway[i], right = now, append(right, now)
		}
	}
	return right
}
