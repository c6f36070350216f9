// SPDX-License-Identifier: Apache-2.0

package state

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/kube"
)

// Attach makes the same changes (parts.setPod and so on) for each object that an informer shows.
// Call the methods for API objects only where there is no informer. Settings, catalogs and virtual
// pods, which no informer shows, are always set here.

// SetPod adds or replaces a pod. listed says that the pod existed before the watch began, so its
// binding does not count as activity on the node.
func (m *Mirror) SetPod(p *corev1.Pod, listed bool) {
	m.change(func() wakeups { return m.parts.setPod(p, listed) })
}

// RemovePod forgets a pod.
func (m *Mirror) RemovePod(p *corev1.Pod) {
	m.change(func() wakeups { return m.parts.removePod(p) })
}

// SetNode adds or replaces a Node.
func (m *Mirror) SetNode(n *corev1.Node) {
	m.change(func() wakeups { return m.parts.setNode(n) })
}

// RemoveNode forgets a Node.
func (m *Mirror) RemoveNode(n *corev1.Node) {
	m.change(func() wakeups { return m.parts.removeNode(n) })
}

// SetClaim adds or replaces a NodeClaim.
func (m *Mirror) SetClaim(c *karpv1.NodeClaim) {
	m.change(func() wakeups { return m.parts.setClaim(c) })
}

// RemoveClaim forgets a NodeClaim; pods that are nominated to it need other capacity.
func (m *Mirror) RemoveClaim(c *karpv1.NodeClaim) {
	m.change(func() wakeups { return m.parts.removeClaim(c) })
}

// SetPool adds or replaces a NodePool. One with another kind of node class is ignored; a pool
// cannot change its kind.
func (m *Mirror) SetPool(p *karpv1.NodePool) { m.change(func() wakeups { return m.setPool(p) }) }

func (m *Mirror) setPool(p *karpv1.NodePool) wakeups {
	if m.NodeClassKind.Kind != "" && !kube.OfKind(p.Spec.Template.Spec.NodeClassRef, m.NodeClassKind) {
		return wakeups{}
	}
	return m.parts.setPool(p)
}

// RemovePool forgets a NodePool.
func (m *Mirror) RemovePool(p *karpv1.NodePool) {
	m.change(func() wakeups { return m.parts.removePool(p) })
}

// SetNamespace adds or replaces a Namespace: pod selectors may select by its labels.
func (m *Mirror) SetNamespace(n *corev1.Namespace) {
	m.change(func() wakeups { return m.parts.setNamespace(n) })
}

// RemoveNamespace forgets a Namespace.
func (m *Mirror) RemoveNamespace(n *corev1.Namespace) {
	m.change(func() wakeups { return m.parts.removeNamespace(n) })
}

// SetDaemon adds or replaces a DaemonSet.
func (m *Mirror) SetDaemon(d *appsv1.DaemonSet) {
	m.change(func() wakeups { return m.parts.setDaemon(d) })
}

// RemoveDaemon forgets a DaemonSet.
func (m *Mirror) RemoveDaemon(d *appsv1.DaemonSet) {
	m.change(func() wakeups { return m.parts.removeDaemon(d) })
}

// SetPVC adds or replaces a PersistentVolumeClaim, and looks again at the pods
// that mount it.
func (m *Mirror) SetPVC(v *corev1.PersistentVolumeClaim) {
	m.change(func() wakeups { return m.parts.setPVC(v) })
}

// RemovePVC forgets a PersistentVolumeClaim.
func (m *Mirror) RemovePVC(v *corev1.PersistentVolumeClaim) {
	m.change(func() wakeups { return m.parts.removePVC(v) })
}

// SetVolume adds or replaces a PersistentVolume, and looks again at the pods that mount it.
func (m *Mirror) SetVolume(v *corev1.PersistentVolume) {
	m.change(func() wakeups { return m.parts.setVolume(v) })
}

// RemoveVolume forgets a PersistentVolume.
func (m *Mirror) RemoveVolume(v *corev1.PersistentVolume) {
	m.change(func() wakeups { return m.parts.removeVolume(v) })
}

// SetStorageClass adds or replaces a StorageClass, and looks again at the pods whose volumes
// are not yet provisioned.
func (m *Mirror) SetStorageClass(s *storagev1.StorageClass) {
	m.change(func() wakeups { return m.parts.setStorageClass(s) })
}

// RemoveStorageClass forgets a StorageClass.
func (m *Mirror) RemoveStorageClass(s *storagev1.StorageClass) {
	m.change(func() wakeups { return m.parts.removeStorageClass(s) })
}

// SetCSINode adds or replaces a CSINode: how many volumes the storage drivers on a node can
// attach.
func (m *Mirror) SetCSINode(n *storagev1.CSINode) {
	m.change(func() wakeups { return m.parts.setCSINode(n) })
}

// RemoveCSINode forgets a CSINode.
func (m *Mirror) RemoveCSINode(n *storagev1.CSINode) {
	m.change(func() wakeups { return m.parts.removeCSINode(n) })
}

// SetPDB adds or replaces a PodDisruptionBudget.
func (m *Mirror) SetPDB(p *policyv1.PodDisruptionBudget) {
	m.change(func() wakeups { return m.parts.setPDB(p) })
}

// RemovePDB forgets a PodDisruptionBudget.
func (m *Mirror) RemovePDB(p *policyv1.PodDisruptionBudget) {
	m.change(func() wakeups { return m.parts.removePDB(p) })
}

// SetSettings sets the operator's settings.
func (m *Mirror) SetSettings(s cluster.Settings) {
	m.change(func() wakeups { m.parts.builder.setSettings(s); return wakeups{} })
}

// SetCatalog sets the instance types of a node class and the quota that is left, by name.
func (m *Mirror) SetCatalog(class string, types []offering.InstanceType, quota map[string]int64) {
	m.change(func() wakeups { m.parts.nodeEvents.setCatalog(class, types, quota); return wakeups{} })
	m.catchUp()
}

// RemoveCatalog forgets the instance types of a node class. If a pool or claim uses the class
// after all, its catalog must be set again.
func (m *Mirror) RemoveCatalog(class string) {
	m.change(func() wakeups { m.parts.nodeEvents.removeCatalog(class); return wakeups{} })
}

// SetVirtualPods replaces virtual pods: it removes those with the UIDs in gone, and adds those
// in come. They exist only in the Snapshot, so they are never nominated to a node.
func (m *Mirror) SetVirtualPods(gone []string, come []cluster.Pod) {
	m.change(func() wakeups { m.parts.builder.setVirtual(gone, come); return wakeIf(true) })
}
