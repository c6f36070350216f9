// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	// DriverName is how classes, volumes and nodes name the driver.
	DriverName = "disk.csi.azure.com"
	// TopologyKey is the label of nodes with the zone their disks must lie in. It is
	// empty on VMs outside zones, where topology.kubernetes.io/zone is "0".
	TopologyKey = "topology.disk.csi.azure.com/zone"
	// ClassName is the StorageClass of AKS for ordinary disks.
	ClassName = "managed-csi"
)

// Install creates the objects that AKS gives every cluster for disks: the CSIDriver and the
// StorageClass managed-csi. Existing ones are kept as they are.
func Install(ctx context.Context, client kubernetes.Interface) error {
	_, err := client.StorageV1().CSIDrivers().Create(ctx, driver(), metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating CSIDriver %s: %w", DriverName, err)
	}
	_, err = client.StorageV1().StorageClasses().Create(ctx, class(), metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating StorageClass %s: %w", ClassName, err)
	}
	return nil
}

// driver requires attaching: nodes are then drained of volumes as in AKS.
func driver() *storagev1.CSIDriver {
	yes, no := true, false
	policy := storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy
	return &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: DriverName},
		Spec: storagev1.CSIDriverSpec{
			AttachRequired: &yes,
			PodInfoOnMount: &no,
			FSGroupPolicy:  &policy,
		},
	}
}

// class is managed-csi with locally redundant disks. Newer AKS clusters over zones
// have zone-redundant ones, which bind a pod to no zone: they would hide the effect of
// volumes on planning.
func class() *storagev1.StorageClass {
	yes := true
	reclaim, binding := corev1.PersistentVolumeReclaimDelete, storagev1.VolumeBindingWaitForFirstConsumer
	return &storagev1.StorageClass{
		ObjectMeta:           metav1.ObjectMeta{Name: ClassName},
		Provisioner:          DriverName,
		Parameters:           map[string]string{parameterSKU: "StandardSSD_LRS"},
		ReclaimPolicy:        &reclaim,
		AllowVolumeExpansion: &yes,
		VolumeBindingMode:    &binding,
	}
}
