// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/karve-dev/karve/bench/karve"
	"github.com/karve-dev/karve/bench/measure"
	"github.com/karve-dev/karve/bench/scenario"
)

// growthRounds is how often each size of a family is made to say how its time grows. It is decided
// growthDecisions times each time, and more often until that took growthTime.
const (
	growthRounds    = 9
	growthDecisions = 5
	growthTime      = time.Second / 3
)

// reportGrowth prints how the time of each hard family grows when its size doubles from half of
// HardFamily.Size, and once more from there. The sizes are decided in turns, and of each round
// the ratio of the times is taken: whatever else the computer does meanwhile disturbs the sizes alike.
// The larger a cluster, the more its memory is disturbed, so the ratio of the best rounds is printed, too.
// Each is alone in memory: beside a larger one, a small cluster would never see its garbage collected.
func (c config) reportGrowth(ctx context.Context) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "family\tsize\tbest s\tmedian s\tsize / half: median\tof the best\tdouble / size: median\tof the best (%d rounds)\n", growthRounds)
	for _, f := range scenario.HardFamilies() {
		if !c.only.MatchString("hard " + f.Name) {
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		half, full, double := decideInTurns(f)
		fmt.Fprintf(w, "%s\t%d\t%.4f\t%.4f\t%.2f\t%.2f\t%.2f\t%.2f\n", f.Name, f.Size, measure.Best(full).Took.Seconds(), measure.Median(full).Took.Seconds(),
			medianRatio(full, half), bestRatio(full, half), medianRatio(double, full), bestRatio(double, full))
	}
	return w.Flush()
}

// decideInTurns decides the family at half its size, at its size and at twice the size, in turns.
func decideInTurns(f scenario.HardFamily) (half, full, double []measure.Sample) {
	var samples [3][]measure.Sample
	for range growthRounds {
		for i, size := range []int{f.Size / 2, f.Size, 2 * f.Size} {
			samples[i] = append(samples[i], meanDecision(karve.New(f.Make(size))))
		}
	}
	return samples[0], samples[1], samples[2]
}

// meanDecision is the mean of decisions in a row, as a controller makes them: a small one may pass
// without a collection of garbage, of which each owes its part.
func meanDecision(cluster *karve.Cluster) measure.Sample {
	cluster.Repeat(measure.Patience{}) // the first decision interns labels
	var sum time.Duration
	n := 0
	for ; n < growthDecisions || sum < growthTime; n++ {
		sum += measure.Light(func() { cluster.Decide() }).Took
		cluster.Forget()
	}
	return measure.Sample{Took: sum / time.Duration(n)}
}

// medianRatio is the median of the ratios of times in each round.
func medianRatio(larger, smaller []measure.Sample) float64 {
	ratios := make([]float64, len(larger))
	for i := range larger {
		ratios[i] = larger[i].Took.Seconds() / smaller[i].Took.Seconds()
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/2]
}

// bestRatio is the ratio of the times of the best rounds, which the rest of the computer disturbed least.
func bestRatio(larger, smaller []measure.Sample) float64 {
	return measure.Best(larger).Took.Seconds() / measure.Best(smaller).Took.Seconds()
}
