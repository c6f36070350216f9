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

// addPod records which PersistentVolumeClaims a new pod mounts. A pod's volumes never change.
func (s *volumes) addPod(p *corev1.Pod) {
	for _, pvc := range kube.PVCsOf(p) {
		set(s.mounts, pvc, string(p.UID))
	}
}

func (s *volumes) removePod(p *corev1.Pod) {
	for _, pvc := range kube.PVCsOf(p) {
		unset(s.mounts, pvc, string(p.UID))
	}
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

// exclusiveUsers lists the pods that use a PersistentVolumeClaim of p which one pod at a time may
// use, p included.
func (s *volumes) exclusiveUsers(p *corev1.Pod) (pods []string) {
	for _, claim := range s.storage.ExclusivePVCs(p) {
		pods = append(pods, s.mounting(claim)...)
	}
	return pods
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
