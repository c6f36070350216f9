// SPDX-License-Identifier: Apache-2.0

package disrupt_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/engine/disrupt/disrupttest"
	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/reason"
)

// poolCatalog has the instance types and pools of the scripts below.
const poolCatalog = `
type D2 cpu=2 mem=8Gi price=0.10
type D4 cpu=4 mem=16Gi price=0.20
type D8 cpu=8 mem=32Gi price=0.40
pool p
`

// Rule CONSOLIDATION-22: the reason for a node that is kept because of a user's setting says
// what its removal would save.
func TestKeptNodesSayWhatWouldBeSaved(t *testing.T) {
	s, err := enginetest.Parse(poolCatalog + "node a type=D4 pool=p\nnode b type=D8 pool=p\npod a cpu=1 mem=1Gi on=a\npods b x2 cpu=1 mem=1Gi on=b\n")
	if err != nil {
		t.Fatal(err)
	}
	f := disrupttest.Of(s)
	in := f.ForDisruption(disrupttest.Now(), poolsOf(s), disrupt.Settings{})
	for i := range in.Nodes {
		in.Nodes[i].Blocks = []disrupt.Block{{Because: disrupt.DoNotDisrupt, Detail: "asked to"}}
	}
	got := map[string]offering.Price{}
	for _, l := range disrupt.Search(f.Builder.Snapshot(), in, disrupt.Cursor{}).Kept {
		if l.Because != disrupt.DoNotDisrupt {
			t.Errorf("%s is kept because of %s", l.Key, l.Because)
		}
		got[l.Key] = l.WouldSave
	}
	if diff := cmp.Diff(map[string]offering.Price{"a": 2e8, "b": 4e8}, got); diff != "" {
		t.Error(diff)
	}
}

// Rule MOVE-2: a move is rechecked before it is made: it is made if it is still right, without
// the nodes of a deletion that may not be removed any more, and else not at all.
func TestRecheck(t *testing.T) {
	const script = "pod a1 cpu=1500m mem=1Gi on=a\npod b1 cpu=7500m mem=1Gi on=b\n"
	for _, tc := range []struct {
		name, more string
		change     func(*disrupt.Input)
		want       reason.Reason
	}{
		{"nothing changed", "", nil, ""},
		{"a pod came that fits", "pod a2 cpu=100m mem=1Gi on=a\n", nil, ""},
		{"a pod came that does not fit the launch", "pod a2 cpu=4 mem=1Gi on=a\n", nil, disrupt.DecisionChanged},
		{"a pod came that no cheaper node fits", "pod a2 cpu=5 mem=1Gi on=a\n", nil, disrupt.NotCheaper},
		{"a pod came that no other node fits", "pod a2 cpu=100m mem=1Gi require:fpga=In:yes on=a\n", nil, disrupt.PodsDoNotFit},
		{"a node may not be disrupted any more", "", func(in *disrupt.Input) {
			in.Nodes[0].Blocks = []disrupt.Block{{Because: disrupt.DoNotDisrupt}}
		}, disrupt.DoNotDisrupt},
		{"the budget is used up", "", func(in *disrupt.Input) { in.Nodes[1].Ready = false }, disrupt.BudgetExhausted},
		{"it became empty", "", func(in *disrupt.Input) { in.Nodes[0].Pods = 0 }, disrupt.NotOccupied},
	} {
		t.Run(tc.name, func(t *testing.T) {
			search := func(text string) (*disrupttest.Cluster, disrupt.Input) {
				s, err := enginetest.Parse(poolCatalog + "node a type=D8 pool=p\nnode b type=D8 pool=p\n" + text)
				if err != nil {
					t.Fatal(err)
				}
				f := disrupttest.Of(s)
				pools := poolsOf(s)
				pools[0].Budgets = []disrupt.Budget{{Nodes: 1, Active: true}}
				return f, f.ForDisruption(disrupttest.Now(), pools, disrupt.Settings{})
			}
			f, in := search(script)
			p := disrupt.Search(f.Builder.Snapshot(), in, disrupt.Cursor{})
			if len(p.Moves) != 1 {
				t.Fatalf("moves: %s", printPlan(p))
			}
			f, in = search(script + tc.more)
			if tc.change != nil {
				tc.change(&in)
			}
			in.Underway = p.Moves
			m, kept := disrupt.Recheck(f.Builder.Snapshot(), in, p.Moves[0])
			if kept.Because != tc.want {
				t.Errorf("%q %s", kept.Because, kept.Detail)
			}
			if tc.want == "" && (len(m.Nodes) != 1 || len(m.Launches) != 1) {
				t.Errorf("%+v", m)
			}
		})
	}
}
