// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
)

// TestTypos (Rule REASON-6): one or two wrong letters are a typo; keys are not alike
// merely because they share a domain.
func TestTypos(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"topology.kubernetes.io/zone", "topology.kubernetes.io/zone", 0},
		{"topology.kubernetes.io/zne", "topology.kubernetes.io/zone", 1},
		{"topology.kubernets.io/zone", "topology.kubernetes.io/zone", 1},
		{"zone", "topology.kubernetes.io/zone", 1},
		{"karpenter.azure.com/sku-famliy", "karpenter.azure.com/sku-family", 1},
		{"team", "taem", 1},
		{"tier", "team", 3},
		{"example.com/a", "example.com/b", 3},
		{"example.com/rack", "example.org/rack", 3},
		{"", "team", 3},
		{"team/", "team", 3},
	} {
		got := typos(c.a, c.b)
		if got > maxTypos {
			got = 3
		}
		if got != c.want {
			t.Errorf("%q for %q: %d typos, want %d", c.a, c.b, got, c.want)
		}
	}
}

// TestKnownLabelsFollowNodes: labels of nodes are known while the nodes exist, whether or
// not they take pods.
func TestKnownLabelsFollowNodes(t *testing.T) {
	b := NewBuilder()
	b.SetCatalog("c", []offering.InstanceType{{
		Name: "D4", Labels: map[string][]string{"sku": {"D"}}, Capacity: quantity.Amounts{quantity.NameCPU: 1000},
		Offerings: []offering.Offering{{Zone: "1", CapacityType: offering.Spot, Price: 1}},
	}}, nil)
	b.SetPool(NodePool{Name: "p", NodeClass: "c", Labels: map[string]string{"team": "a"}})
	b.SetNode(Node{Key: "n", Labels: map[string]string{"rack": "1"}, MarkedForDeletion: true})
	b.SetNode(Node{Key: "m", Labels: map[string]string{"rack": "2", "row": "1"}, TakesNoPods: true})
	knows := func(snapshot *Snapshot, name string) bool { return snapshot.knowsLabel(snapshot.Interner.Key(name)) }
	snapshot := b.Snapshot()
	for _, name := range []string{"sku", "team", "rack", "row", LabelZone} {
		if !knows(snapshot, name) {
			t.Errorf("%s is unknown", name)
		}
	}
	b.RemoveNode("m")
	b.SetNode(Node{Key: "n", Labels: map[string]string{"rack": "1"}})
	if snapshot = b.Snapshot(); knows(snapshot, "row") || !knows(snapshot, "rack") {
		t.Errorf("known after a node went: %v", snapshot.knownLabels())
	}
	b.RemoveNode("n")
	b.RemovePool("p")
	if snapshot = b.Snapshot(); len(snapshot.knownLabels()) != 0 {
		t.Errorf("still known: %v", snapshot.knownLabels())
	}
}
