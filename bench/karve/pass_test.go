// SPDX-License-Identifier: Apache-2.0

package karve

import (
	"fmt"
	"testing"

	"github.com/karve-dev/karve/bench/measure"
	"github.com/karve-dev/karve/bench/scenario"
)

// BenchmarkPass is the first pass over overprovisioned clusters. On a busy computer cpu-ms/op is more
// reliable than ns/op.
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
	for b.Loop() {
		b.StopTimer()
		d := NewDisruption(s)
		b.StartTimer()
		cpu += measure.Once(func() { err = d.Pass() }).CPU.Seconds()
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(cpu*1000/float64(b.N), "cpu-ms/op")
}
