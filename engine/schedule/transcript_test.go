// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/schedule"
)

var rewrite = flag.Bool("rewrite", false, "write what the engine answers into the transcripts")

// TestTranscripts replays testdata: a script, a line of dashes, the plan for it.
func TestTranscripts(t *testing.T) {
	replay(t, "testdata/*.txt", schedule.Solve, enginetest.Print)
}

// TestZeroPolicy replays testdata/zeropolicy, where other policies would find plans that do without
// what the transcript shows.
func TestZeroPolicy(t *testing.T) {
	replay(t, "testdata/zeropolicy/*.txt", byZeroPolicy, enginetest.Print)
}

// byZeroPolicy plans by no other policy than the zero one.
func byZeroPolicy(snapshot *cluster.Snapshot) schedule.Plan {
	return schedule.SolveByZeroPolicy(snapshot)
}

// TestReasons replays testdata/why, where the answer is what a plan says about its reasons,
// with every parameter.
func TestReasons(t *testing.T) {
	replay(t, "testdata/why/*.txt", schedule.Solve, enginetest.PrintReasons)
}

func replay(t *testing.T, pattern string, solve func(*cluster.Snapshot) schedule.Plan, print func(schedule.Plan) string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			in, want, _ := strings.Cut(string(raw), "----\n")
			script, err := enginetest.Parse(in)
			if err != nil {
				t.Fatal(err)
			}
			snapshot := script.Snapshot()
			plan := solve(snapshot)
			if err := enginetest.Check(script, plan); err != nil {
				t.Errorf("the plan breaks a rule: %v", err)
			}
			got := print(plan)
			if *rewrite {
				if err := os.WriteFile(file, []byte(in+"----\n"+got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("plan (-want +got; -rewrite accepts):\n%s", diff)
			}
		})
	}
}
