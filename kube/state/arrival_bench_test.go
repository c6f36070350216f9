// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/schedule"
)

// BenchmarkArrival lets one pod arrive among 5,000 nodes with 100,000 pods: its event, and the
// decision about it. p99 is that of the whole.
func BenchmarkArrival(b *testing.B) {
	m := NewMirror(nil)
	setCatalog(m)
	m.SetPool(nastyPool("web"))
	for i := range 5000 {
		claim, node := joined(claimNamed(fmt.Sprint("c", i)))
		node.Status.Allocatable = resources("cpu", "32", "memory", "64Gi", "pods", "110")
		m.SetClaim(claim)
		m.SetNode(node)
		for j := range 20 {
			p := runningPod(fmt.Sprint("p", i, "-", j))
			p.Spec.NodeName = node.Name
			m.SetPod(p, true)
		}
	}
	p := pendingPod("new")
	var took []time.Duration
	for b.Loop() {
		start := time.Now()
		m.SetPod(p, false)
		m.View(func(snapshot *cluster.Snapshot) { schedule.Solve(snapshot) })
		took = append(took, time.Since(start))
		m.RemovePod(p)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
}
