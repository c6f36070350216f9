// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/schedule"
)

// vacated removes some nodes of a populated cluster in a what-if, and writes a script with
// the same nodes leaving.
func vacated(seed uint64) (*cluster.WhatIf, *enginetest.Script) {
	script := enginetest.Populated(seed, 1+int(seed%40))
	trial, bare := script.Snapshot().WhatIf(), enginetest.WithoutPending(script)
	r := rand.New(rand.NewPCG(seed, 5))
	for i := range bare.Nodes {
		if node := &bare.Nodes[i]; !node.MarkedForDeletion && r.IntN(3) == 0 {
			trial.RemoveNodes(trial.Snapshot().NodeByKey(node.Key))
			node.MarkedForDeletion, node.TakesNoPods = true, true
		}
	}
	return trial, enginetest.WithNodesRemoved(bare)
}

// TestDraftIsSolve: the plan written out of a draft without a maximum price is the plan of
// Solve by the zero policy.
func TestDraftIsSolve(t *testing.T) {
	for seed := range uint64(300) {
		trial, script := vacated(seed)
		want := byZeroPolicy(script.Snapshot())
		d := schedule.NewDraft(trial.Snapshot(), math.MaxInt64)
		if diff := cmp.Diff(enginetest.Print(want), enginetest.Print(d.Plan())); diff != "" {
			t.Fatalf("seed %d: solved (-) and drafted (+):\n%s", seed, diff)
		}
		if d.OverMaxPrice() {
			t.Errorf("seed %d: over the maximum price without one", seed)
		}
	}
}

// TestDraftHolds: for any maximum price, the plan written out of a draft that stays within it
// is accepted by the scheduler, and costs at most the maximum price.
func TestDraftHolds(t *testing.T) {
	placed, launched, over := 0, 0, 0
	for seed := range uint64(600) {
		trial, script := vacated(seed)
		full := schedule.Solve(script.Snapshot()).Price()
		for _, maxPrice := range []offering.Price{0, full / 2, full, full * 2} {
			d := schedule.NewDraft(trial.Snapshot(), maxPrice)
			if d.OverMaxPrice() {
				over++
				continue
			}
			p := d.Plan()
			if d.Price() > maxPrice || p.Price() > maxPrice || maxPrice == 0 && len(p.Launches) > 0 {
				t.Errorf("seed %d: %d launches for %s, drafted as %s, with a maximum price of %s", seed, len(p.Launches), p.Price(), d.Price(), maxPrice)
			}
			launched += len(p.Launches)
			if d.Unplaced() > 0 {
				continue // the check would ask why no node is launched for the others
			}
			placed++
			if err := enginetest.Check(script, p); err != nil {
				t.Errorf("seed %d, maxPrice %s: %v\n%s\n%s", seed, maxPrice, err, enginetest.Format(script), enginetest.Print(p))
			}
		}
	}
	if placed < 600 || launched < 300 || over < 100 {
		t.Errorf("%d drafts placed all pods, %d launched nodes, %d exceeded the maximum price: too few of one kind to test anything", placed, launched, over)
	}
}

// TestApply: after a draft is applied, only the pods that it left out are pending, and another
// draft with a maximum price of zero launches no node.
func TestApply(t *testing.T) {
	for seed := range uint64(300) {
		trial, _ := vacated(seed)
		d := schedule.NewDraft(trial.Snapshot(), math.MaxInt64)
		left := 0
		for _, u := range d.Plan().Unplaced {
			left += len(u.Pods)
		}
		before := trial.Snapshot().PodsToPlace()
		mark := trial.Savepoint()
		d.Apply(trial)
		if got := trial.Snapshot().PodsToPlace(); got != left {
			t.Errorf("seed %d: %d pods are to be placed after the plan was kept, want %d", seed, got, left)
		}
		if again := schedule.NewDraft(trial.Snapshot(), 0); again.Price() > 0 {
			t.Errorf("seed %d: a draft without a maximum price costs %s", seed, again.Price())
		}
		trial.RollbackTo(mark)
		if got := trial.Snapshot().PodsToPlace(); got != before {
			t.Errorf("seed %d: %d pods are to be placed after all was taken back, want %d", seed, got, before)
		}
	}
}
