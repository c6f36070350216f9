// SPDX-License-Identifier: Apache-2.0

package karve

import (
	"testing"

	"github.com/karve-dev/karve/bench/measure"
	"github.com/karve-dev/karve/bench/scenario"
)

// BenchmarkPass is the first pass over 2,000 nodes with 40,000 pods. On a busy
// computer cpu-ms/op is more reliable than ns/op.
func BenchmarkPass(b *testing.B) {
	s, err := scenario.Consolidate(b.Context(), scenario.Overprovisioned{Nodes: 2000, Budget: "100%"})
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
