// SPDX-License-Identifier: Apache-2.0

package worlds

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	karpv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
)

// class is the node class of every NodePool.
const class = "default"

// World is a cluster as its API server has it, and what the cloud sells.
type World struct {
	Types          []offering.InstanceType
	Quota          map[string]int64
	Settings       cluster.Settings
	Overlays       []*karpv1alpha1.NodeOverlay
	Namespaces     []*corev1.Namespace
	NodePools      []*karpv1.NodePool
	NodeClaims     []*karpv1.NodeClaim
	Nodes          []*corev1.Node
	CSINodes       []*storagev1.CSINode
	StorageClasses []*storagev1.StorageClass
	Volumes        []*corev1.PersistentVolume
	VolumeClaims   []*corev1.PersistentVolumeClaim
	DaemonSets     []*appsv1.DaemonSet
	Pods           []*corev1.Pod
	Buffers        []*Buffer
}

// tree is the world as decoded JSON.
func (w *World) tree() map[string]any {
	text, err := json.Marshal(w)
	if err != nil {
		panic(fmt.Sprintf("writing a world: %v", err))
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var out map[string]any
	if err := d.Decode(&out); err != nil {
		panic(fmt.Sprintf("reading a world: %v", err))
	}
	return out
}

// fromTree is the inverse of tree.
func fromTree(tree map[string]any) (*World, error) {
	text, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	var w World
	err = json.Unmarshal(text, &w)
	return &w, err
}

// claimOf is the NodeClaim of a Node; nil when it has none.
func (w *World) claimOf(n *corev1.Node) *karpv1.NodeClaim {
	i := slices.IndexFunc(w.NodeClaims, func(c *karpv1.NodeClaim) bool {
		return n.Spec.ProviderID != "" && c.Status.ProviderID == n.Spec.ProviderID
	})
	if i < 0 {
		return nil
	}
	return w.NodeClaims[i]
}

// nodeOf is the Node of a NodeClaim; nil when it has none.
func (w *World) nodeOf(c *karpv1.NodeClaim) *corev1.Node {
	for _, n := range w.Nodes {
		if w.claimOf(n) == c {
			return n
		}
	}
	return nil
}

// pool is the NodePool of that name, or nil.
func (w *World) pool(name string) *karpv1.NodePool {
	for _, p := range w.NodePools {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// offering finds an instance type and one of its offerings; nil when there is none.
func (w *World) offering(instanceType, zone, capacityType string) (*offering.InstanceType, *offering.Offering) {
	for i := range w.Types {
		t := &w.Types[i]
		if t.Name != instanceType {
			continue
		}
		for j := range t.Offerings {
			if o := &t.Offerings[j]; o.Zone == zone && o.CapacityType == capacityType {
				return t, o
			}
		}
		return t, nil
	}
	return nil, nil
}

// volumeClaim is the PersistentVolumeClaim of that name, or nil.
func (w *World) volumeClaim(namespace, name string) *corev1.PersistentVolumeClaim {
	for _, c := range w.VolumeClaims {
		if c.Namespace == namespace && c.Name == name {
			return c
		}
	}
	return nil
}

func ownedBy(o metav1.Object, kind string) bool { return owner(o, kind) != "" }

// owner is the UID of the owner of that kind, or empty.
func owner(o metav1.Object, kind string) string {
	for _, r := range o.GetOwnerReferences() {
		if r.Kind == kind {
			return string(r.UID)
		}
	}
	return ""
}

func finished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// waits reports whether karve should look for capacity for a pod that is not bound (POD-1).
func waits(p *corev1.Pod) bool {
	if p.Spec.NodeName != "" || p.DeletionTimestamp != nil || p.Status.NominatedNodeName != "" || finished(p) || ownedBy(p, "DaemonSet") || ownedBy(p, "Node") {
		return false
	}
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable
	})
}

// leaves reports whether the pod must leave its node when that is removed.
func leaves(p *corev1.Pod) bool {
	return p.Spec.NodeName != "" && !finished(p) && !ownedBy(p, "DaemonSet") && !ownedBy(p, "Node") &&
		p.Annotations[karpv1.DoNotDisruptAnnotationKey] != "true" &&
		(p.DeletionTimestamp == nil || ownedBy(p, "StatefulSet"))
}

// leaving reports whether a node, or the NodeClaim of one, is being deleted.
func leaving(n *corev1.Node, c *karpv1.NodeClaim) bool {
	return n != nil && n.DeletionTimestamp != nil || c != nil && c.DeletionTimestamp != nil
}
