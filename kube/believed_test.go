// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/quantity"
)

// A Node cannot make itself cheaper, dearer or of another NodePool or zone by its labels: those that
// describe its instance are the NodeClaim's. Labels of users are the Node's.
//
// Rule LAUNCH-17.
func TestLabelsThatDescribeTheInstanceAreTheClaims(t *testing.T) {
	honest := map[string]string{
		cluster.LabelInstanceType: "fat", cluster.LabelZone: "z1", cluster.LabelCapacityType: "spot", karpv1.NodePoolLabelKey: "web",
		"karpenter.azure.com/sku-cpu": "4", "team": "a",
	}
	for name, lie := range map[string]map[string]string{
		"cheaper type":    {cluster.LabelInstanceType: "lean"},
		"unknown type":    {cluster.LabelInstanceType: "no such type"},
		"zone":            {cluster.LabelZone: "z2"},
		"capacity type":   {cluster.LabelCapacityType: "on-demand"},
		"NodePool":        {karpv1.NodePoolLabelKey: "another"},
		"size":            {"karpenter.azure.com/sku-cpu": "400"},
		"several at once": {cluster.LabelInstanceType: "lean", cluster.LabelZone: "z2"},
	} {
		t.Run(name, func(t *testing.T) {
			n, c := registeredPair(honest)
			want := Node(n, c, catalogOfTwo(), nil)
			if want.Price == 0 {
				t.Fatal("the honest node has no price")
			}
			want.Labels = mapOf(want.Labels, "team", "b")
			for key, value := range lie {
				n.Labels[key] = value
			}
			n.Labels["team"] = "b"
			if diff := cmp.Diff(want, Node(n, c, catalogOfTwo(), nil)); diff != "" {
				t.Error(diff)
			}
			if got := Contradictions(n, c); len(got) != len(lie) {
				t.Errorf("contradictions: %v", got)
			}
		})
	}
}

// A Node offers no more than its instance was launched with, and limits count it as what was launched.
// Less is believed where pods are concerned. What the catalog does not know is what the Node says.
//
// Rule LAUNCH-17.
func TestSizeOfNodeIsBoundedByItsClaim(t *testing.T) {
	n, c := registeredPair(map[string]string{})
	c.Status.Capacity = resources("cpu", "4", "memory", "16Gi", "pods", "110", "nvidia.com/gpu", "1")
	c.Status.Allocatable = resources("cpu", "3800m", "memory", "14Gi", "pods", "110", "nvidia.com/gpu", "1")
	for name, tc := range map[string]struct {
		capacity, allocatable   corev1.ResourceList
		wantCapacity, wantAlloc quantity.Amounts
		contradictions          int
	}{
		"as measured": {resources("cpu", "4", "memory", "17Gi", "pods", "110", "nvidia.com/gpu", "1", "example.com/fuse", "1000"),
			resources("cpu", "3900m", "memory", "15Gi", "pods", "110", "nvidia.com/gpu", "1", "example.com/fuse", "1000"),
			quantity.Amounts{"cpu": 4000, "memory": 17 << 30, "pods": 110, "nvidia.com/gpu": 1, "example.com/fuse": 1000},
			quantity.Amounts{"cpu": 3900, "memory": 15 << 30, "pods": 110, "nvidia.com/gpu": 1, "example.com/fuse": 1000}, 0},
		"huge": {resources("cpu", "9999", "memory", "9999Gi", "pods", "9999", "nvidia.com/gpu", "9999"),
			resources("cpu", "9999", "memory", "9999Gi", "pods", "9999", "nvidia.com/gpu", "9999"),
			quantity.Amounts{"cpu": 4000, "memory": 16 << 30, "pods": 110, "nvidia.com/gpu": 1},
			quantity.Amounts{"cpu": 3800, "memory": 14 << 30, "pods": 110, "nvidia.com/gpu": 1}, 4},
		"none at all": {nil, nil, quantity.Amounts{"cpu": 4000, "memory": 16 << 30, "pods": 110, "nvidia.com/gpu": 1}, nil, 0},
		"small": {resources("cpu", "1", "memory", "1Gi", "pods", "1"), resources("cpu", "1", "memory", "1Gi", "pods", "1"),
			quantity.Amounts{"cpu": 4000, "memory": 16 << 30, "pods": 110, "nvidia.com/gpu": 1},
			quantity.Amounts{"cpu": 1000, "memory": 1 << 30, "pods": 1}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			n.Status.Capacity, n.Status.Allocatable = tc.capacity, tc.allocatable
			got := Node(n, c, nil, nil)
			if diff := cmp.Diff(tc.wantCapacity, got.Capacity); diff != "" {
				t.Errorf("capacity: %s", diff)
			}
			if diff := cmp.Diff(tc.wantAlloc, got.Allocatable); diff != "" {
				t.Errorf("allocatable: %s", diff)
			}
			if all := Contradictions(n, c); len(all) != tc.contradictions {
				t.Errorf("contradictions: %v", all)
			}
		})
	}
}

// registeredPair is an initialized Node and its NodeClaim, both with the labels.
func registeredPair(labels map[string]string) (*corev1.Node, *karpv1.NodeClaim) {
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "web-1", Labels: mapOf(labels)}}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: mapOf(labels,
		karpv1.NodeRegisteredLabelKey, "true", karpv1.NodeInitializedLabelKey, "true")}}
	return n, c
}

// mapOf is a copy of labels with the pairs in addition.
func mapOf(labels map[string]string, pairs ...string) map[string]string {
	out := map[string]string{}
	for key, value := range labels {
		out[key] = value
	}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = pairs[i+1]
	}
	return out
}
