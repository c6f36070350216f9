// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/kube"
)

// The cluster must be one that could exist: no node overfull, every kind of pool,
// capacity, zone and block there, and much of it idle.
func TestShrunkClusters(t *testing.T) {
	for seed := range uint64(3) {
		s, err := Consolidate(t.Context(), Overprovisioned{Nodes: 60, Seed: seed, Budget: "100%"})
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Nodes) != 60 || len(s.Claims) != 60 || len(s.PDBs) == 0 {
			t.Fatalf("seed %d: %d nodes, %d claims, %d PDBs", seed, len(s.Nodes), len(s.Claims), len(s.PDBs))
		}
		kinds := map[string]bool{}
		free, whole := int64(0), int64(0)
		for i, n := range s.Nodes {
			kinds[n.Labels[karpv1.NodePoolLabelKey]], kinds[n.Labels[karpv1.CapacityTypeLabelKey]] = true, true
			kinds[n.Labels[corev1.LabelTopologyZone]] = true
			room := kube.Amounts(n.Status.Allocatable)
			whole += room[quantity.NameCPU]
			for _, p := range s.Bound {
				if p.Spec.NodeName == n.Name {
					room = room.Sub(kube.Requests(p))
				}
			}
			free += room[quantity.NameCPU]
			for name, left := range room {
				if left < 0 {
					t.Errorf("seed %d: %s has %d too little %s", seed, n.Name, -left, name)
				}
			}
			if _, err := s.Price(InstanceOf(n)); err != nil || s.Claims[i].Status.NodeName != n.Name {
				t.Errorf("seed %d: %s: %v, claim %s", seed, n.Name, err, s.Claims[i].Status.NodeName)
			}
		}
		if len(kinds) != 3+2+3 {
			t.Errorf("seed %d: kinds of nodes: %v", seed, kinds)
		}
		if share := float64(free) / float64(whole); share < 0.25 || share > 0.7 {
			t.Errorf("seed %d: %.0f %% of the cores are idle", seed, 100*share)
		}
	}
}

// In a free cluster only size and NodePool restrict a pod.
func TestFreeClusters(t *testing.T) {
	s, err := Consolidate(t.Context(), Overprovisioned{Nodes: 30, Free: true, Budget: "100%"})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range s.Bound {
		if p.Spec.Affinity != nil || p.Spec.TopologySpreadConstraints != nil || p.Annotations != nil || metav1.GetControllerOf(p) == nil {
			t.Fatalf("pod %s: %+v", p.Name, p.Spec)
		}
	}
	if len(s.PDBs) > 0 {
		t.Errorf("%d PDBs", len(s.PDBs))
	}
}
