package kube

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
)

// SetVolumeClaim adds or replaces a PersistentVolumeClaim and looks again at the
// pods that mount it.
func (m *Mirror) SetVolumeClaim(c *corev1.PersistentVolumeClaim) {
	m.mu.Lock()
	key := keyOf(c)
	m.unname(key)
	m.storage.claims[key] = c
	if c.Spec.VolumeName != "" {
		set(m.claimed, c.Spec.VolumeName, key)
	}
	woke := m.tellMounting(key)
	m.mu.Unlock()
	m.rouse(woke)
}

// RemoveVolumeClaim forgets a PersistentVolumeClaim.
func (m *Mirror) RemoveVolumeClaim(c *corev1.PersistentVolumeClaim) {
	m.mu.Lock()
	key := keyOf(c)
	m.unname(key)
	delete(m.storage.claims, key)
	woke := m.tellMounting(key)
	m.mu.Unlock()
	m.rouse(woke)
}

// unname forgets which volume the claim named.
func (m *Mirror) unname(key types.NamespacedName) {
	if old := m.storage.claims[key]; old != nil {
		unset(m.claimed, old.Spec.VolumeName, key)
	}
}

// SetVolume adds or replaces a PersistentVolume and looks again at the pods that
// mount it.
func (m *Mirror) SetVolume(v *corev1.PersistentVolume) {
	m.mu.Lock()
	m.storage.volumes[v.Name] = v
	woke := m.tellVolume(v.Name)
	m.mu.Unlock()
	m.rouse(woke)
}

// RemoveVolume forgets a PersistentVolume.
func (m *Mirror) RemoveVolume(v *corev1.PersistentVolume) {
	m.mu.Lock()
	delete(m.storage.volumes, v.Name)
	woke := m.tellVolume(v.Name)
	m.mu.Unlock()
	m.rouse(woke)
}

// SetStorageClass adds or replaces a StorageClass and looks again at the pods
// whose volumes are still to be made.
func (m *Mirror) SetStorageClass(c *storagev1.StorageClass) {
	m.mu.Lock()
	old := m.storage.classes[c.Name]
	m.storage.classes[c.Name] = c
	var woke []string
	if !sameClass(old, c) {
		woke = m.tellUnbound()
	}
	m.mu.Unlock()
	m.rouse(woke)
}

// RemoveStorageClass forgets a StorageClass.
func (m *Mirror) RemoveStorageClass(c *storagev1.StorageClass) {
	m.mu.Lock()
	delete(m.storage.classes, c.Name)
	woke := m.tellUnbound()
	m.mu.Unlock()
	m.rouse(woke)
}

// sameClass reports whether both say the same about volumes yet to be made.
func sameClass(a, b *storagev1.StorageClass) bool {
	return a != nil && isDefault(a) == isDefault(b) && a.Provisioner == b.Provisioner &&
		a.CreationTimestamp.Equal(&b.CreationTimestamp) &&
		reflect.DeepEqual(a.VolumeBindingMode, b.VolumeBindingMode) &&
		reflect.DeepEqual(a.AllowedTopologies, b.AllowedTopologies)
}

func (m *Mirror) tellVolume(name string) []string {
	var woke []string
	for claim := range m.claimed[name] {
		woke = append(woke, m.tellMounting(claim)...)
	}
	return woke
}

func (m *Mirror) tellUnbound() []string {
	var woke []string
	for claim := range m.mounts {
		if c := m.storage.claims[claim]; c == nil || c.Spec.VolumeName == "" {
			woke = append(woke, m.tellMounting(claim)...)
		}
	}
	return woke
}

// tellMounting looks again at the pods that mount a claim.
func (m *Mirror) tellMounting(claim types.NamespacedName) []string {
	var woke []string
	for uid := range m.mounts[claim] {
		woke = append(woke, m.tellPod(uid)...)
	}
	return woke
}
