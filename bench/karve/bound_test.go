// SPDX-License-Identifier: Apache-2.0

package karve

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/bench/scenario"
	"github.com/karve-dev/karve/engine/cluster"
)

// TestNodesThatStay: those with a pod that asks not to be disrupted, or that a PodDisruptionBudget selects
// which never allows it.
func TestNodesThatStay(t *testing.T) {
	pod := func(node, app string, annotations map[string]string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}, Annotations: annotations}, Spec: corev1.PodSpec{NodeName: node}}
	}
	budget := func(app, most string) *policyv1.PodDisruptionBudget {
		n := intstr.Parse(most)
		return &policyv1.PodDisruptionBudget{Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: &n, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		}}
	}
	s := &scenario.Scenario{
		Bound: []*corev1.Pod{
			pod("free", "web", nil), pod("annotated", "web", map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}),
			pod("some", "api", nil), pod("none", "db", nil), pod("none", "web", nil), pod("a share", "queue", nil), pod("no share", "log", nil),
			pod("elsewhere", "other", nil),
		},
		PDBs: []*policyv1.PodDisruptionBudget{budget("api", "1"), budget("db", "0"), budget("queue", "25%"), budget("log", "0%"), budget("other", "0"), {}},
	}
	s.PDBs[4].Namespace = "elsewhere"
	stay, err := nodesThatStay(s)
	if got := slices.Sorted(maps.Keys(stay)); err != nil || !slices.Equal(got, []string{"annotated", "no share", "none"}) {
		t.Errorf("%v stay, %v; want annotated, no share and none", got, err)
	}
}

// TestClusterBound: the bound is no more than the cluster costs now, and more than it would be without
// what blocks nodes.
func TestClusterBound(t *testing.T) {
	for seed := range uint64(3) {
		s, err := scenario.Consolidate(t.Context(), scenario.Overprovisioned{Nodes: 40, Budget: "100%", Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		price := 0.0
		for _, n := range New(s).Builder.Snapshot().Nodes {
			price += n.Price.USD()
		}
		blocked, err := ClusterBound(s)
		if err != nil {
			t.Fatal(err)
		}
		if anew := boundAnew(s); blocked <= anew || blocked > price {
			t.Errorf("seed %d: bounds of %v $/h, %v without blocks; the cluster costs %v", seed, blocked, anew, price)
		}
	}
}

// TestReplicasApart: ten replicas that keep off each other's nodes need ten nodes, whatever they ask for.
func TestReplicasApart(t *testing.T) {
	at := slices.IndexFunc(scenario.HardFamilies(), func(f scenario.HardFamily) bool { return f.Name == "apps of ten" })
	s := scenario.HardFamilies()[at].Make(10)
	c := New(s)
	plan, _ := c.Decide()
	b := boundedPods{snapshot: c.Builder.Snapshot(), pods: map[boundedGroup]int{}, apart: map[*cluster.PodSelector]int{}}
	if err := b.addLaunched(plan); err != nil {
		t.Fatal(err)
	}
	r, err := b.least()
	if price := plan.Price().USD(); err != nil || len(plan.Launches) != 10 || r.Price < 0.99*price || r.Price > price*(1+1e-9) {
		t.Errorf("%d nodes for %.4f $/h, the bound is %+v, %v; want ten nodes at the bound", len(plan.Launches), price, r, err)
	}
}
