// SPDX-License-Identifier: Apache-2.0

package karve

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/karve-dev/karve/bench/measure"
	"github.com/karve-dev/karve/bench/scenario"
)

// BenchmarkPass is the first pass over overprovisioned clusters. ns/op includes a garbage collection
// before each pass; best-ms is the shortest pass, and cpu-ms/op what all passes computed on average.
func BenchmarkPass(b *testing.B) {
	for _, nodes := range []int{2000, 5000} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) { benchmarkPass(b, nodes) })
	}
}

func benchmarkPass(b *testing.B, nodes int) {
	s, err := scenario.Consolidate(b.Context(), scenario.Overprovisioned{Nodes: nodes, Budget: "100%"})
	if err != nil {
		b.Fatal(err)
	}
	var cpu float64
	best := time.Duration(math.MaxInt64)
	for b.Loop() {
		b.StopTimer()
		d := NewDisruption(s)
		b.StartTimer()
		pass := measure.Once(func() { err = d.Pass() })
		cpu, best = cpu+pass.CPU.Seconds(), min(best, pass.Took)
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(cpu*1000/float64(b.N), "cpu-ms/op")
	b.ReportMetric(float64(best.Milliseconds()), "best-ms")
}
