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
			in := f.ForDisruption(disrupttest.Now(), disrupttest.OverprovisionedPools(), disrupt.Settings{SpotToSpot: true})
			snapshot := f.Builder.Snapshot()
			p := disrupt.Search(snapshot, in, disrupt.Cursor{})
			in.Underway = p.Moves
			for i, m := range p.Moves {
				now, kept := disrupt.Recheck(snapshot, in, m)
				if asked++; kept.Because != "" {
					t.Logf("seed %d, pass %d: %v is no longer right: %s %s", seed, pass, m.Nodes, kept.Because, kept.Detail)
					refused++
					continue
				}
				if now.Saves() <= 0 {
					t.Errorf("seed %d: %v costs %s, then %s", seed, m.Nodes, now.PriceBefore, now.PriceAfter)
				}
				in.Underway[i] = now
			}
			if err := checkMoves(f.Script(script), in.Underway); err != nil {
				t.Fatalf("seed %d, pass %d: %v", seed, pass, err)
			}
			if err := f.Apply(in.Underway); err != nil {
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
			snapshot, in := f.Builder.Snapshot(), f.ForDisruption(disrupttest.Now(), poolsOf(s), disrupt.Settings{SpotToSpot: true})
			in.Underway = disrupt.Search(snapshot, in, disrupt.Cursor{}).Moves
			if len(in.Underway) == 0 {
				break
			}
			asked += len(in.Underway)
			right := stillRight(snapshot, in)
			if refused += len(in.Underway) - len(right); len(right) == 0 {
				t.Fatalf("seed %d, pass %d: of %d moves none is right when looked at again\n%s", seed, pass, len(in.Underway), enginetest.Format(f.Script(s)))
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
func stillRight(snapshot *cluster.Snapshot, in disrupt.Input) (right []disrupt.Move) {
	in.Underway = slices.Clone(in.Underway)
	for i, m := range slices.Clone(in.Underway) {
		if now, kept := disrupt.Recheck(snapshot, in, m); kept.Because == "" {
			in.Underway[i], right = now, append(right, now)
		}
	}
	return right
}
