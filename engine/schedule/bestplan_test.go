// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"slices"
	"testing"

	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/schedule"
)

// TestAgainstBestPlan compares plans for small scripts with the best of all possible plans. A plan
// is optimal when its score (see enginetest.Score) equals the best one. A plan that places fewer
// pods, or uses a lighter pool more, is a miss whatever it costs. The gap is by how much a plan
// that places the same pods costs more.
func TestAgainstBestPlan(t *testing.T) {
	compareWithBest(t, 2000, 0.90, false, func(seed uint64) *enginetest.Script { return enginetest.RandomSmall(seed, false) })
}

// TestAgainstBestPlanFull is TestAgainstBestPlan with every semantic mixed in. There a plan may
// beat the best score: that counts a zone as open to a spread pod even when quota or limits do not
// let the plan launch a node there.
func TestAgainstBestPlanFull(t *testing.T) {
	compareWithBest(t, 1000, 0.90, true, func(seed uint64) *enginetest.Script { return enginetest.RandomSmall(seed, true) })
}

// TestAgainstBestPlanColocated (Rule SPREAD-8) does so where most pods must share a node.
func TestAgainstBestPlanColocated(t *testing.T) {
	compareWithBest(t, 1000, 0.90, false, enginetest.RandomColocated)
}

// TestAgainstBestPlanSharing (Rule SPREAD-8) does so for several workloads of which each must share a node,
// most of them under limits for hardly all.
func TestAgainstBestPlanSharing(t *testing.T) {
	compareWithBest(t, 1000, 0.90, false, enginetest.RandomSharing)
}

func compareWithBest(t *testing.T, snapshots int, least float64, full bool, random func(seed uint64) *enginetest.Script) {
	var compared, optimal, better, fewer, lighter, needless, over, invalid int
	var gaps []float64 // of the plans that place the same pods on the same pools
	worst, worstSeed := 0.0, uint64(0)
	for seed := uint64(0); compared < snapshots && over < snapshots; seed++ {
		script := random(seed)
		plan := schedule.Solve(script.Snapshot())
		if err := enginetest.Check(script, plan); err != nil {
			t.Errorf("seed %d: %v\n%s----\n%s", seed, err, enginetest.Format(script), enginetest.Print(plan))
			if invalid++; invalid > 20 {
				return
			}
			continue
		}
		best, ok := enginetest.BestScore(script)
		if !ok {
			over++
			continue
		}
		compared++
		got := enginetest.ScoreOf(script, plan)
		if len(script.Nodes) == 0 && len(plan.Unplaced) == 0 && slices.Equal(got.Light, best.Light) && best.Price < plan.LowerBound {
			t.Errorf("seed %d: %s is enough, which the plan's lower bound of %s rules out\n%s----\n%s", seed, best.Price, plan.LowerBound, enginetest.Format(script), enginetest.Print(plan))
		}
		switch c := got.Compare(best); {
		case c < 0 && full:
			better++
		case c < 0:
			t.Fatalf("seed %d: the plan scores %+v, better than the best, %+v\n%s----\n%s", seed, got, best, enginetest.Format(script), enginetest.Print(plan))
		case c == 0:
			optimal++
		case !slices.Equal(got.Placed, best.Placed):
			fewer++
			t.Logf("seed %d: places %v, could place %v", seed, got.Placed, best.Placed)
		case !slices.Equal(got.Light, best.Light):
			lighter++
			t.Logf("seed %d: lighter pools get %v, could get %v", seed, got.Light, best.Light)
		case best.Price == 0:
			needless++
			t.Logf("seed %d: launches for %s, nothing need be launched", seed, got.Price)
		default:
			gap := got.Price.USD()/best.Price.USD() - 1
			if gap > worst {
				worst, worstSeed = gap, seed
			}
			gaps = append(gaps, gap)
		}
	}
	share := float64(optimal+better) / float64(compared)
	gaps = append(gaps, make([]float64, optimal+better)...)
	slices.Sort(gaps)
	mean, p99 := sum(gaps)/float64(len(gaps)), gaps[len(gaps)*99/100]
	t.Logf("%d clusters: %.1f %% optimal; better than the best score in %d, fewer pods in %d, lighter pools in %d, needless in %d; gap %.2f %% on average, %.1f %% in the 99th percentile, worst %.0f %% (seed %d); %d too large to compare",
		compared, 100*share, better, fewer, lighter, needless, 100*mean, 100*p99, 100*worst, worstSeed, over)
	if mean > 0.01 || p99 > 0.10 {
		t.Errorf("plans cost %.2f %% more than the best on average and %.1f %% in the 99th percentile, want 1 and 10", 100*mean, 100*p99)
	}
	if share < least {
		t.Errorf("only %.1f %% of the plans are optimal, want %.0f %%", 100*share, 100*least)
	}
}

func sum(list []float64) float64 {
	total := 0.0
	for _, x := range list {
		total += x
	}
	return total
}
