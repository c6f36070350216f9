// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func claimOf(size string, modes ...corev1.PersistentVolumeAccessMode) *corev1.PersistentVolumeClaim {
	name := ClassName
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data-db-0", UID: "u1"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: modes, StorageClassName: &name,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
		},
	}
}

func TestVolumeLiesInTheZone(t *testing.T) {
	c := claimOf("8G", corev1.ReadWriteOnce)
	v := volumeFor(c, class(), "eastus-2", "/rg/disks/")
	size := v.Spec.Capacity[corev1.ResourceStorage]
	if v.Name != "pvc-u1" || v.Spec.CSI.VolumeHandle != "/rg/disks/pvc-u1" || size.String() != "8Gi" {
		t.Errorf("volume %s, handle %s, size %s", v.Name, v.Spec.CSI.VolumeHandle, size.String())
	}
	want := []corev1.NodeSelectorRequirement{{Key: "topology.disk.csi.azure.com/zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"eastus-2"}}}
	if diff := cmp.Diff(want, v.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions); diff != "" {
		t.Errorf("node affinity (-want +got):\n%s", diff)
	}
	if v.Spec.ClaimRef.UID != c.UID || v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		t.Errorf("claim %v, policy %s", v.Spec.ClaimRef, v.Spec.PersistentVolumeReclaimPolicy)
	}
}

func TestWholeGiB(t *testing.T) {
	for asked, want := range map[string]string{"0": "1Gi", "1": "1Gi", "1Gi": "1Gi", "1025Mi": "2Gi", "10Gi": "10Gi"} {
		if got := wholeGiB(resource.MustParse(asked)); got.String() != want {
			t.Errorf("%s is sold as %s, want %s", asked, got.String(), want)
		}
	}
}

func TestWhatIsNotSimulatedIsRefused(t *testing.T) {
	immediate := storagev1.VolumeBindingImmediate
	for _, c := range []struct {
		name   string
		change func(*corev1.PersistentVolumeClaim, *storagev1.StorageClass)
		ok     bool
	}{
		{"an ordinary claim", func(*corev1.PersistentVolumeClaim, *storagev1.StorageClass) {}, true},
		{"a class without a SKU", func(_ *corev1.PersistentVolumeClaim, s *storagev1.StorageClass) { s.Parameters = nil }, true},
		{"zone redundancy", func(_ *corev1.PersistentVolumeClaim, s *storagev1.StorageClass) {
			s.Parameters = map[string]string{"SKUNAME": "Premium_ZRS"}
		}, false},
		{"immediate binding", func(_ *corev1.PersistentVolumeClaim, s *storagev1.StorageClass) { s.VolumeBindingMode = &immediate }, false},
		{"no binding mode", func(_ *corev1.PersistentVolumeClaim, s *storagev1.StorageClass) { s.VolumeBindingMode = nil }, false},
		{"many writers", func(p *corev1.PersistentVolumeClaim, _ *storagev1.StorageClass) {
			p.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
		}, false},
		{"a snapshot", func(p *corev1.PersistentVolumeClaim, _ *storagev1.StorageClass) {
			p.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "VolumeSnapshot", Name: "s"}
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			claim, class := claimOf("1Gi", corev1.ReadWriteOnce), class()
			c.change(claim, class)
			err := check(claim, class)
			if refused := refusal(""); (err == nil) != c.ok || err != nil && !errors.As(err, &refused) {
				t.Errorf("got %v", err)
			}
		})
	}
}
