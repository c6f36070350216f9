// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/karve-dev/karve/engine/cluster"
)

// BenchmarkLockHeld reports how long events wait, at most, while the Mirror of 5,000 nodes with
// 100,000 pods is read. It should stay below 5 ms.
func BenchmarkLockHeld(b *testing.B) {
	m := NewMirror(nil)
	app := func(i int) string { return fmt.Sprint("app-", i%4000) }
	for i := range 5000 {
		claim, node := joined(claimNamed(fmt.Sprint("c", i)))
		m.SetClaim(claim)
		m.SetNode(node)
		for j := range 20 {
			p := runningPod(fmt.Sprint("p", i, "-", j), func(p *corev1.Pod) {
				p.Labels = map[string]string{"app": app(i*20 + j), "tier": "web"}
				p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "x", UID: types.UID(app(i*20 + j)), Controller: ptr.To(true)}}
			})
			p.Spec.NodeName = node.Name
			m.SetPod(p, true)
		}
	}
	budgets := make([]policyv1.PodDisruptionBudget, 4000)
	for i := range budgets {
		budgets[i] = pdbOf(fmt.Sprint("b", i), func(p *policyv1.PodDisruptionBudget) {
			p.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": app(i)}}
			p.Status.DisruptionsAllowed = 0
		})
	}
	changed := int32(0)
	setPDBs := func() { // which keep all pods for good, or no longer do
		changed++
		for i := range budgets {
			one := budgets[i].DeepCopy()
			one.Status.DesiredHealthy = 2 + changed%2
			m.SetPDB(one)
		}
	}
	for _, read := range []struct {
		name   string
		before func()
		f      func()
	}{
		{"ManagedNodes", nil, func() { m.ManagedNodes() }},
		{"HasNodes", nil, func() { m.HasNodes("none") }},
		{"CountPods", nil, func() { m.CountPods(map[types.UID]bool{"app-1": true}) }},
		{"Classes", nil, func() { m.Classes() }},
		{"DropLapsed", nil, m.DropLapsed},
		{"View", nil, func() { m.View(func(*cluster.Snapshot) {}) }},
		{"View of PDBs", setPDBs, func() { m.View(func(*cluster.Snapshot) {}) }},
	} {
		b.Run(read.name, func(b *testing.B) {
			waited := time.Duration(0)
			for b.Loop() {
				b.StopTimer()
				if read.before != nil {
					read.before()
				}
				b.StartTimer()
				waited = max(waited, longestWait(m, read.f))
			}
			b.ReportMetric(float64(waited.Nanoseconds()), "longest-wait-ns")
		})
	}
}

// longestWait is how long a query waited at most for the lock while f ran.
func longestWait(m *Mirror, f func()) (longest time.Duration) {
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	for {
		select {
		case <-done:
			return longest
		default:
		}
		start := time.Now()
		m.CountNodes()
		longest = max(longest, time.Since(start))
	}
}
