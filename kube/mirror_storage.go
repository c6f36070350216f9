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
	m.change(func() news { return m.setVolumeClaim(c) })
}

func (m *Mirror) setVolumeClaim(c *corev1.PersistentVolumeClaim) news {
	key := keyOf(c)
	m.unname(key)
	m.storage.claims[key] = c
	if c.Spec.VolumeName != "" {
		set(m.claimed, c.Spec.VolumeName, key)
	}
	return news{woke: m.tellMounting(key)}
}

// RemoveVolumeClaim forgets a PersistentVolumeClaim.
func (m *Mirror) RemoveVolumeClaim(c *corev1.PersistentVolumeClaim) {
	m.change(func() news { return m.removeVolumeClaim(c) })
}

func (m *Mirror) removeVolumeClaim(c *corev1.PersistentVolumeClaim) news {
	key := keyOf(c)
	m.unname(key)
	delete(m.storage.claims, key)
	return news{woke: m.tellMounting(key)}
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
	m.change(func() news { return m.setVolume(v) })
}

func (m *Mirror) setVolume(v *corev1.PersistentVolume) news {
	m.storage.volumes[v.Name] = v
	return news{woke: m.tellVolume(v.Name)}
}

// RemoveVolume forgets a PersistentVolume.
func (m *Mirror) RemoveVolume(v *corev1.PersistentVolume) {
	m.change(func() news { return m.removeVolume(v) })
}

func (m *Mirror) removeVolume(v *corev1.PersistentVolume) news {
	delete(m.storage.volumes, v.Name)
	return news{woke: m.tellVolume(v.Name)}
}

// SetStorageClass adds or replaces a StorageClass and looks again at the pods whose volumes are
// not yet provisioned.
func (m *Mirror) SetStorageClass(c *storagev1.StorageClass) {
	m.change(func() news { return m.setStorageClass(c) })
}

func (m *Mirror) setStorageClass(c *storagev1.StorageClass) news {
	old := m.storage.classes[c.Name]
	m.storage.classes[c.Name] = c
	if sameClass(old, c) {
		return news{}
	}
	return news{woke: m.tellUnbound()}
}

// RemoveStorageClass forgets a StorageClass.
func (m *Mirror) RemoveStorageClass(c *storagev1.StorageClass) {
	m.change(func() news { return m.removeStorageClass(c) })
}

func (m *Mirror) removeStorageClass(c *storagev1.StorageClass) news {
	delete(m.storage.classes, c.Name)
	return news{woke: m.tellUnbound()}
}

// sameClass reports whether both say the same about volumes not yet provisioned.
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
