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
	"github.com/karve-dev/karve/kube"
)

// BenchmarkDisruptionNodes reads a cluster of 2,000 nodes and 40,000 pods, half of them
// under one of 200 PodDisruptionBudgets.
func BenchmarkDisruptionNodes(b *testing.B) {
	m := NewMirror(nil)
	for i := range 200 {
		one := pdbOf(fmt.Sprint("b", i), func(p *policyv1.PodDisruptionBudget) {
			p.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint("app-", i), "tier": "web"}}
		})
		m.SetPDB(&one)
	}
	for i := range 2000 {
		claim, node := joined(claimNamed(fmt.Sprint("c", i)))
		m.SetClaim(claim)
		m.SetNode(node)
		for j := range 20 {
			app := fmt.Sprint("app-", (i*20+j)%400)
			p := runningPod(fmt.Sprint("p", i, "-", j), func(p *corev1.Pod) {
				p.Labels = map[string]string{"app": app, "tier": "web", "pod-template-hash": "x", "env": "prod"}
				p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app + "-x", UID: types.UID(app), Controller: ptr.To(true)}}
			})
			p.Spec.NodeName = node.Name
			m.SetPod(p, true)
		}
	}
	m.View(func(*cluster.Snapshot) {})
	b.Run("nodes", func(b *testing.B) {
		for b.Loop() {
			m.ManagedNodes()
		}
	})
	nodes := m.ManagedNodes()
	for i := range 400 {
		m.Lifetimes().add(kube.Workload{Namespace: "default", Kind: "Deployment", Name: fmt.Sprint("app-", i)}, time.Hour, noon)
	}
	for name, expected := range map[string]time.Duration{"disruption": 0, "disruption with stays": 2 * time.Hour} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				for i := range nodes {
					kube.DisruptionNode(nodes[i], m.PDBs(), kube.Stays{Lifetimes: m.Lifetimes(), Expected: expected}, false, noon)
				}
			}
		})
	}
	b.Run("budget", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			one := pdbOf("b7", func(p *policyv1.PodDisruptionBudget) {
				p.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "app-7", "tier": "web"}}
				p.Status.DesiredHealthy += int32(i % 2)
			})
			m.SetPDB(&one)
			m.View(func(*cluster.Snapshot) {})
		}
	})
}
