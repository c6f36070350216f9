// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"slices"
	"testing"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
)

func namesOf(keys []*constraint.Key) (names []string) {
	for _, k := range keys {
		names = append(names, k.Name)
	}
	return names
}

// TestNodesAreAlike: two nodes are alike unless they differ in a label that
// pods select nodes by, or in the topology key of a hard spread constraint or a required
// affinity term.
func TestNodesAreAlike(t *testing.T) {
	b := cluster.NewBuilder()
	node := func(name, zone, disk, colour string) {
		b.SetNode(cluster.Node{Key: name, Name: name, Initialized: true,
			Labels: map[string]string{cluster.LabelHostname: name, cluster.LabelZone: zone, "disk": disk, "colour": colour}})
	}
	node("a", "z1", "ssd", "red")
	node("b", "z1", "ssd", "blue")
	node("c", "z2", "ssd", "red")
	node("d", "z1", "hdd", "red")
	self := cluster.Selector{Namespaces: []string{"default"}}
	b.SetPod(cluster.Pod{PodRef: cluster.PodRef{Namespace: "default", Name: "p", UID: "p"},
		Required:     []constraint.Rule{{Key: "disk", Operator: constraint.In, Values: []string{"ssd"}}},
		Spreads:      []cluster.TopologySpreadConstraint{{Key: cluster.LabelZone, MaxSkew: 1, Selector: self}, {Key: "colour", MaxSkew: 1, Selector: self, Soft: true}},
		AntiAffinity: []cluster.PodAffinityTerm{{Key: cluster.LabelHostname, Selector: self}}})
	snapshot := b.Snapshot()
	if got, want := namesOf(snapshot.LabelsUsed()), []string{"disk", cluster.LabelZone}; !slices.Equal(got, want) {
		t.Errorf("pods use the labels %v, want %v", got, want)
	}
	if got, want := namesOf(snapshot.LabelsUsedOrPreferred()), []string{"colour", "disk", cluster.LabelZone}; !slices.Equal(got, want) {
		t.Errorf("pods use or prefer the labels %v, want %v", got, want)
	}
	key := func(name string) string { return snapshot.NodeByKey(name).GroupKey(snapshot.LabelsUsed()) }
	if key("a") != key("b") {
		t.Error("a and b differ only in labels that no pod uses")
	}
	if key("a") == key("c") || key("a") == key("d") {
		t.Error("c is in another zone than a, d has another disk")
	}
}
