// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/karve-dev/karve/bench/measure"
)

// TestMedianRatio: a round in which the computer was slow for both sizes does not change the ratio, and
// one in which it was slow for one size does not decide it. The ratio of the best is that of the shortest
// of each size, whatever their rounds.
func TestRatios(t *testing.T) {
	took := func(ms ...int) (out []measure.Sample) {
		for _, n := range ms {
			out = append(out, measure.Sample{Took: time.Duration(n) * time.Millisecond})
		}
		return out
	}
	if got := medianRatio(took(20, 90, 20), took(10, 45, 1)); got != 2 {
		t.Errorf("the median ratio is %v, want 2", got)
	}
	if got := bestRatio(took(90, 30, 40), took(20, 45, 10)); got != 3 {
		t.Errorf("the ratio of the best is %v, want 3", got)
	}
}

func TestGrowthStandsAlone(t *testing.T) {
	for _, flag := range []string{"-quick", "-update", "-list"} {
		if _, err := parse([]string{"-growth", flag}); err == nil {
			t.Errorf("-growth %s is accepted", flag)
		}
	}
}
