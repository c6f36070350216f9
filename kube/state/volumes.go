// SPDX-License-Identifier: Apache-2.0

package state

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/kube"
)

// volumes holds the cluster's storage objects, and finds the pods that a change of one concerns:
// setters return the UIDs of the pods to look at again.
type volumes struct {
	storage *kube.Storage
	// mounts has, for each PersistentVolumeClaim, the UIDs of the pods that mount it.
	mounts map[types.NamespacedName]map[string]bool
	// pvcsOn has, for each PersistentVolume, the PersistentVolumeClaims that name it.
	pvcsOn map[string]map[types.NamespacedName]bool
}

func newVolumes() *volumes {
	return &volumes{storage: kube.NewStorage(), mounts: map[types.NamespacedName]map[string]bool{}, pvcsOn: map[string]map[types.NamespacedName]bool{}}
}

// mount fills in the volumes of p in w, which was converted from p.
func (s *volumes) mount(w *cluster.Pod, p *corev1.Pod) { s.storage.Mount(w, p) }

// setPod records which claims a new pod mounts. When the pod was bound and has ended, it returns
// the pods that may use its claims now. A pod's volumes never change.
func (s *volumes) setPod(old, now *knownPod) (sharers []string) {
	claims := kube.PVCsOf(now.Pod)
	if old == nil {
		for _, claim := range claims {
			set(s.mounts, claim, string(now.UID))
		}
	}
	if old.usesVolumes() && !now.usesVolumes() {
		return s.sharing(claims)
	}
	return nil
}

// removePod forgets a pod; see setPod. A pending pod may have been the one that goes first.
func (s *volumes) removePod(p *knownPod) (sharers []string) {
	claims := kube.PVCsOf(p.Pod)
	for _, claim := range claims {
		unset(s.mounts, claim, string(p.UID))
	}
	return s.sharing(claims)
}

// sharing lists the pods that mount those of the claims which one pod at a time may use.
func (s *volumes) sharing(claims []types.NamespacedName) (pods []string) {
	for _, claim := range claims {
		if s.storage.Exclusive(claim) {
			pods = append(pods, s.mounting(claim)...)
		}
	}
	return pods
}

func (s *volumes) setPVC(c *corev1.PersistentVolumeClaim) []string {
	key := client.ObjectKeyFromObject(c)
	s.forgetVolumeName(key)
	s.storage.SetPVC(c)
	if c.Spec.VolumeName != "" {
		set(s.pvcsOn, c.Spec.VolumeName, key)
	}
	return s.mounting(key)
}

func (s *volumes) removePVC(c *corev1.PersistentVolumeClaim) []string {
	key := client.ObjectKeyFromObject(c)
	s.forgetVolumeName(key)
	delete(s.storage.PVCs, key)
	return s.mounting(key)
}

// forgetVolumeName forgets which PersistentVolume the PersistentVolumeClaim names.
func (s *volumes) forgetVolumeName(pvc types.NamespacedName) {
	if old := s.storage.PVCs[pvc]; old != nil {
		unset(s.pvcsOn, old.Spec.VolumeName, pvc)
	}
}

func (s *volumes) setVolume(v *corev1.PersistentVolume) []string {
	s.storage.SetVolume(v)
	return s.mountingVolume(v.Name)
}

func (s *volumes) removeVolume(v *corev1.PersistentVolume) []string {
	delete(s.storage.Volumes, v.Name)
	return s.mountingVolume(v.Name)
}

func (s *volumes) setClass(c *storagev1.StorageClass) []string {
	if !s.storage.SetStorageClass(c) {
		return nil
	}
	return s.mountingUnbound()
}

func (s *volumes) removeClass(c *storagev1.StorageClass) []string {
	delete(s.storage.StorageClasses, c.Name)
	return s.mountingUnbound()
}

func (s *volumes) mountingVolume(name string) (pods []string) {
	for pvc := range s.pvcsOn[name] {
		pods = append(pods, s.mounting(pvc)...)
	}
	return pods
}

// mountingUnbound lists the pods with volumes that are not yet provisioned.
func (s *volumes) mountingUnbound() (pods []string) {
	for pvc := range s.mounts {
		if c := s.storage.PVCs[pvc]; c == nil || c.Spec.VolumeName == "" {
			pods = append(pods, s.mounting(pvc)...)
		}
	}
	return pods
}

func (s *volumes) mounting(pvc types.NamespacedName) []string {
	return slices.Collect(maps.Keys(s.mounts[pvc]))
}
