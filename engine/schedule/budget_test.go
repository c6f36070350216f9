// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/schedule"
)

// budgetScripts are clusters that together need every search.
func budgetScripts(t *testing.T) map[string]*enginetest.Script {
	t.Helper()
	out := map[string]*enginetest.Script{}
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		in, _, _ := strings.Cut(string(raw), "----\n")
		if out[file], err = enginetest.Parse(in); err != nil {
			t.Fatal(err)
		}
	}
	for seed := range uint64(40) {
		out[fmt.Sprint("RandomFull seed ", seed)] = enginetest.RandomFull(seed, 25)
		out[fmt.Sprint("RandomColocated seed ", seed)] = enginetest.RandomColocated(seed)
		out[fmt.Sprint("RandomSharing seed ", seed)] = enginetest.RandomSharing(seed)
		out[fmt.Sprint("RandomExclusive seed ", seed)] = enginetest.RandomExclusive(seed, 25)
	}
	return out
}

// TestEveryCutIsSaid (Rule PLAN-9): with few steps for a search the plan says how much the search
// did not look at wherever it differs from the one with all steps, and it is the same in any order
// of events. With all steps no search is cut short.
func TestEveryCutIsSaid(t *testing.T) {
	cut := map[schedule.Search]int{}
	for name, script := range budgetScripts(t) {
		full := schedule.Solve(script.Snapshot())
		for _, c := range full.CutShort {
			if c.Search != schedule.Orders && c.Search != schedule.Cells && c.Search != schedule.Preferred {
				t.Errorf("%s: %v is cut short with all steps", name, c)
			}
		}
		for _, of := range schedule.Searches() {
			few := 1
			if of == schedule.ClaimTurns || of == schedule.Orders || of == schedule.HostnameSpread {
				few = 0
			}
			plan := schedule.SolveWithBudget(script.Snapshot(), of, few)
			if plan.Unexamined(of) == 0 && full.Unexamined(of) == 0 {
				if diff := cmp.Diff(full, plan); diff != "" {
					t.Errorf("%s: another plan with few steps for %s, and the plan does not say so (-all +few):\n%s", name, of, diff)
				}
				continue
			}
			cut[of]++
			again := schedule.SolveWithBudget(shuffle(script, 7).Snapshot(), of, few)
			if diff := cmp.Diff(enginetest.Print(plan), enginetest.Print(again)); diff != "" {
				t.Errorf("%s: with few steps for %s the order of events matters:\n%s", name, of, diff)
			}
		}
	}
	for _, of := range schedule.Searches() {
		if cut[of] == 0 {
			t.Errorf("no plan is cut short in %s: the clusters do not need it", of)
		}
	}
	t.Logf("plans cut short: %v", cut)
}
