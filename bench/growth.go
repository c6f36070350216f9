// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/karve-dev/karve/bench/karve"
	"github.com/karve-dev/karve/bench/measure"
	"github.com/karve-dev/karve/bench/scenario"
)

// growthRounds is how often each size of a family is decided to say how its time grows.
const growthRounds = 15

// reportGrowth prints how the time of each hard family grows when its size doubles from half of
// HardFamily.Size, and once more from there. The sizes are decided in turns, and of each round
// the ratio of the times is taken: whatever else the computer does meanwhile disturbs the sizes alike.
func (c config) reportGrowth(ctx context.Context) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "family\tsize\tbest s\tmedian s\tsize / half\tdouble / size (medians of %d ratios)\n", growthRounds)
	for _, f := range scenario.HardFamilies() {
		if !c.only.MatchString("hard " + f.Name) {
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		half, full, double := decideInTurns(f)
		fmt.Fprintf(w, "%s\t%d\t%.4f\t%.4f\t%.2f\t%.2f\n", f.Name, f.Size, measure.Best(full).Took.Seconds(), measure.Median(full).Took.Seconds(),
			medianRatio(full, half), medianRatio(double, full))
	}
	return w.Flush()
}

// decideInTurns decides the family at half its size, at its size and at twice the size, in turns.
func decideInTurns(f scenario.HardFamily) (half, full, double []measure.Sample) {
	clusters := [3]*karve.Cluster{karve.New(f.Make(f.Size / 2)), karve.New(f.Make(f.Size)), karve.New(f.Make(2 * f.Size))}
	var samples [3][]measure.Sample
	for range growthRounds {
		for i, cluster := range clusters {
			samples[i] = append(samples[i], cluster.Repeat(measure.Patience{Runs: 1}).Samples...)
		}
	}
	return samples[0], samples[1], samples[2]
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
