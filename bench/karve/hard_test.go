// SPDX-License-Identifier: Apache-2.0

package karve

import (
	"fmt"
	"testing"

	"github.com/karve-dev/karve/bench/measure"
	"github.com/karve-dev/karve/bench/scenario"
)

// BenchmarkHard decides each hard family at its size and at multiples of that: under a profile, whatever
// takes a larger share at the larger sizes is what makes the time grow faster than the family.
func BenchmarkHard(b *testing.B) {
	for _, f := range scenario.HardFamilies() {
		for _, times := range []int{1, 2, 4} {
			b.Run(fmt.Sprintf("%s/%d", f.Name, times*f.Size), func(b *testing.B) {
				cluster := New(f.Make(times * f.Size))
				b.ReportAllocs()
				for b.Loop() {
					cluster.Repeat(measure.Patience{Runs: 1})
				}
			})
		}
	}
}
