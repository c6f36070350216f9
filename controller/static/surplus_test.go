// SPDX-License-Identifier: Apache-2.0

package static

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/kube"
)

func TestSurplusByEvictionCostAndLifetime(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	node := func(name string, age time.Duration, deletionCosts ...string) kube.ManagedNode {
		c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(now.Add(-age))}}
		c.Spec.ExpireAfter = karpv1.MustParseNillableDuration("100h")
		c.StatusConditions().SetTrue(karpv1.ConditionTypeLaunched)
		m := kube.ManagedNode{Claim: c, Node: &corev1.Node{}}
		for _, cost := range deletionCosts {
			p := &corev1.Pod{Spec: corev1.PodSpec{NodeName: name}}
			p.Annotations = map[string]string{corev1.PodDeletionCost: cost}
			m.Pods = append(m.Pods, p)
		}
		return m
	}
	unborn := node("unborn", 0)
	unborn.Claim.Status.Conditions = nil
	nodes := []kube.ManagedNode{
		node("young", 0, "0", "0"), node("old", 90*time.Hour, "0", "0", "0"), node("cheap", 0, "-134217728"),
		node("bad-cost", 0, "many"), node("empty", 0), unborn,
	}
	var got []string
	for _, m := range surplusNodes(nodes, 99, now) {
		got = append(got, m.Claim.Name)
	}
	if diff := cmp.Diff([]string{"unborn", "empty", "cheap", "old", "bad-cost", "young"}, got); diff != "" {
		t.Error(diff)
	}
	if n := len(surplusNodes(nodes, 2, now)); n != 2 {
		t.Errorf("%d instead of 2", n)
	}
}
