// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/schedule"
	"github.com/karve-dev/karve/kube"
)

const attachDisks = quantity.Attachable + azureDisk

// reporting makes a CSINode with that limit; nil means without a limit.
func reporting(node string, limit *int32) *storagev1.CSINode {
	d := storagev1.CSINodeDriver{Name: azureDisk, NodeID: node}
	if limit != nil {
		d.Allocatable = &storagev1.VolumeNodeResources{Count: limit}
	}
	return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{d}}}
}

// diskTypes are d2, which attaches 4 disks, and d4, which attaches 8.
func diskTypes() []offering.InstanceType {
	of := func(name string, cpu, disks int64) offering.InstanceType {
		return offering.InstanceType{Name: name, Capacity: quantity.Amounts{"cpu": cpu, "pods": 10, attachDisks: disks},
			Offerings: []offering.Offering{{Zone: "z1", CapacityType: offering.Spot, Price: offering.Price(cpu)}}}
	}
	return []offering.InstanceType{of("d2", 2000, 4), of("d4", 4000, 8)}
}

// sized is the claim and Node of an instance type.
func sized(name, kind string) (*karpv1.NodeClaim, *corev1.Node) {
	c, n := joined(claimNamed(name))
	c.Spec.NodeClassRef = &karpv1.NodeClassReference{Name: "default"}
	c.Labels[corev1.LabelInstanceTypeStable], n.Labels[corev1.LabelInstanceTypeStable] = kind, kind
	return c, n
}

func TestAttachLimitOfNodes(t *testing.T) {
	m := NewMirror(nil)
	m.SetCatalog("default", diskTypes(), nil)
	limit := func(key string) string {
		if n, ok := m.parts.builder.nodes[key].Allocatable[attachDisks]; ok {
			return fmt.Sprint(n)
		}
		return "none"
	}
	claim, node := sized("web-1", "d4")
	stranger := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "stranger"}}
	early := claim.DeepCopy()
	early.Status = karpv1.NodeClaimStatus{}
	early.Spec.Requirements = kube.Requirements([]constraint.Rule{{Key: cluster.LabelInstanceType, Operator: constraint.In, Values: []string{"d2", "d4"}}})
	for _, step := range []struct {
		name   string
		change func()
		key    string
		want   string
	}{
		{"the least of what it may become", func() { m.SetClaim(early) }, "web-1", "4"},
		{"its type's, before the driver reports", func() { m.SetClaim(claim); m.SetNode(node) }, "web-1", "8"},
		{"what the driver reports", func() { m.SetCSINode(reporting(node.Name, new(int32(3)))) }, "web-1", "3"},
		{"no limit", func() { m.SetCSINode(reporting(node.Name, nil)) }, "web-1", "none"},
		{"the driver is gone", func() { m.RemoveCSINode(reporting(node.Name, nil)) }, "web-1", "8"},
		{"nobody's node has none unless reported", func() { m.SetNode(stranger) }, "stranger", "none"},
		{"nobody's node", func() { m.SetCSINode(reporting("stranger", new(int32(16)))) }, "stranger", "16"},
	} {
		step.change()
		if got := limit(step.key); got != step.want {
			t.Errorf("%s: limit %s, want %s", step.name, got, step.want)
		}
	}
}

// A type whose nodes attach less than the catalog says attaches less on new nodes too, and the
// provider's list does not change.
func TestAttachLimitIsLearnt(t *testing.T) {
	m, types := NewMirror(nil), diskTypes()
	sold := func() []int64 {
		var out []int64
		m.View(func(*cluster.Snapshot) {
			for _, t := range m.parts.catalogs.byClass["default"].types.List {
				out = append(out, t.Capacity[attachDisks])
			}
		})
		return out
	}
	m.SetCSINode(reporting("node-web-1", new(int32(6))))
	claim, node := sized("web-1", "d4")
	m.SetClaim(claim)
	m.SetNode(node)
	m.SetCatalog("default", types, nil)
	_, second := sized("web-2", "d4")
	for _, step := range []struct {
		name   string
		change func()
		want   []int64
	}{
		{"before the catalog came", func() {}, []int64{4, 6}},
		{"the same catalog again", func() { m.SetCatalog("default", types, nil) }, []int64{4, 6}},
		{"the smallest of several", func() { m.SetNode(second); m.SetCSINode(reporting(second.Name, new(int32(5)))) }, []int64{4, 5}},
		{"more than the catalog says is not believed", func() { m.SetCSINode(reporting(second.Name, new(int32(9)))) }, []int64{4, 6}},
		{"forgotten with the last node", func() { m.RemoveNode(node) }, []int64{4, 8}},
		{"a new catalog", func() { m.SetNode(node); m.SetCatalog("default", diskTypes()[1:], nil) }, []int64{6}},
	} {
		step.change()
		if diff := cmp.Diff(step.want, sold()); diff != "" {
			t.Errorf("%s: %s", step.name, diff)
		}
	}
	if types[1].Capacity[attachDisks] != 8 {
		t.Error("the provider's list was changed")
	}
}

// No kubelet reports attached volumes as a resource, so a claim must not ask for
// them, and no status or total shows them.
//
// Rule VOLUME-4.
func TestAttachmentsAreNoResources(t *testing.T) {
	amounts := quantity.Amounts{"cpu": 1000, attachDisks: 2}
	c := kube.Claim(schedule.Launch{Requests: amounts}, &karpv1.NodePool{}, "a")
	for _, list := range []corev1.ResourceList{c.Spec.Resources.Requests, kube.ResourceList(amounts)} {
		if diff := cmp.Diff(quantity.Amounts{"cpu": 1000}, kube.Amounts(list)); diff != "" {
			t.Error(diff)
		}
	}
}

// An in-flight node takes pods whose disks are in its zone, although only the disk driver will
// give the node the label for it.
//
// Rule VOLUME-3.
func TestNodesCarryWhatTheirDriversWillSay(t *testing.T) {
	const key = "topology.disk.csi.azure.com/zone"
	types := diskTypes()
	for i := range types {
		types[i].Offerings[0].Labels = map[string][]string{key: {"z1"}, "ultra": {"false", "true"}}
	}
	m := NewMirror(nil)
	m.SetCatalog("default", types, nil)
	claim, node := sized("web-1", "d4")
	for _, o := range []metav1.Object{claim, node} {
		o.GetLabels()[cluster.LabelZone], o.GetLabels()[cluster.LabelCapacityType] = "z1", offering.Spot
	}
	early := claim.DeepCopy()
	early.Status = karpv1.NodeClaimStatus{}
	early.Labels = map[string]string{karpv1.NodePoolLabelKey: "web"}
	early.Spec.Requirements = kube.Requirements([]constraint.Rule{in(cluster.LabelInstanceType, "d4")})
	started := node.DeepCopy()
	delete(started.Labels, karpv1.NodeInitializedLabelKey)
	elsewhere := node.DeepCopy()
	elsewhere.Labels[key] = "z9"
	silent := reporting(node.Name, nil)
	silent.Spec.Drivers = nil
	for _, step := range []struct {
		name   string
		change func()
		want   string
	}{
		{"nothing launched yet", func() { m.SetClaim(early) }, "z1"},
		{"an instance is launched", func() { m.SetClaim(claim) }, "z1"},
		{"its node joins", func() { m.SetNode(started) }, "z1"},
		{"it is initialized", func() { m.SetNode(node) }, "z1"},
		{"a CSINode without drivers", func() { m.SetCSINode(silent) }, "z1"},
		{"what the node says counts", func() { m.SetNode(elsewhere) }, "z9"},
		{"a driver has started without a word about zones", func() { m.SetNode(node); m.SetCSINode(reporting(node.Name, nil)) }, ""},
	} {
		step.change()
		labels := m.parts.builder.nodes["web-1"].Labels
		if got := labels[key]; got != step.want {
			t.Errorf("%s: zone %q, want %q", step.name, got, step.want)
		}
		if _, ok := labels["ultra"]; ok {
			t.Errorf("%s: the node is said to have a label that is not settled yet", step.name)
		}
	}
	if _, ok := node.Labels[key]; ok {
		t.Error("the node itself was changed")
	}
}
