// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Annotations that Kubernetes and provisioners exchange.
const (
	annotationProvisioner   = "volume.kubernetes.io/storage-provisioner"
	annotationSelectedNode  = "volume.kubernetes.io/selected-node"
	annotationProvisionedBy = "pv.kubernetes.io/provisioned-by"
)

// parameterSKU is compared without case, as the driver does it.
const parameterSKU = "skuName"

// refusal is the reason why a claim will never get a volume as it stands.
type refusal string

func (r refusal) Error() string { return string(r) }

// awaits reports whether the claim waits for a volume from this driver. The volume
// controller marks such claims; claims of classes that bind late are marked once the scheduler
// has chosen a node.
func awaits(c *corev1.PersistentVolumeClaim) bool {
	return c.Spec.VolumeName == "" && c.DeletionTimestamp == nil && c.Annotations[annotationProvisioner] == DriverName
}

// check refuses settings that a locally redundant disk cannot have, and those that are not
// simulated.
func check(c *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) error {
	sku := parameter(class, parameterSKU)
	switch {
	case sku != "" && !strings.HasSuffix(strings.ToUpper(sku), "_LRS"):
		return refusal(fmt.Sprintf("skuName %s is not simulated: use a locally redundant one, such as StandardSSD_LRS", sku))
	case class.VolumeBindingMode == nil || *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer:
		return refusal("volumeBindingMode Immediate is not simulated: use WaitForFirstConsumer")
	case c.Spec.DataSource != nil || c.Spec.DataSourceRef != nil:
		return refusal("data sources are not simulated: there is no data")
	}
	for _, mode := range c.Spec.AccessModes {
		if mode != corev1.ReadWriteOnce && mode != corev1.ReadWriteOncePod {
			return refusal(fmt.Sprintf("access mode %s needs a shared disk, which is not simulated: use ReadWriteOnce", mode))
		}
	}
	return nil
}

func parameter(class *storagev1.StorageClass, name string) string {
	for key, value := range class.Parameters {
		if strings.EqualFold(key, name) {
			return value
		}
	}
	return ""
}

// volumeFor is the volume of a claim in a zone; disks is the ARM id prefix of disks.
// Its name is a function of the claim's UID, so that making it twice makes it once.
func volumeFor(c *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, zone, disks string) *corev1.PersistentVolume {
	name := "pvc-" + string(c.UID)
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{annotationProvisionedBy: DriverName},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: wholeGiB(c.Spec.Resources.Requests[corev1.ResourceStorage])},
			AccessModes:                   slices.Clone(c.Spec.AccessModes),
			PersistentVolumeReclaimPolicy: reclaimPolicy(class),
			StorageClassName:              class.Name,
			MountOptions:                  slices.Clone(class.MountOptions),
			VolumeMode:                    c.Spec.VolumeMode,
			NodeAffinity:                  inZone(zone),
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim",
				Namespace: c.Namespace, Name: c.Name, UID: c.UID, ResourceVersion: c.ResourceVersion,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver:       DriverName,
				VolumeHandle: disks + name,
			}},
		},
	}
}

// inZone binds a disk to its zone. Only the driver's own label counts: the driver
// itself puts it on its volumes.
func inZone(zone string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: TopologyKey, Operator: corev1.NodeSelectorOpIn, Values: []string{zone},
			}},
		}},
	}}
}

// ZoneOf is the zone that a volume of this driver is held in; empty for others, and
// outside zones.
func ZoneOf(v *corev1.PersistentVolume) string {
	if v.Spec.NodeAffinity == nil || v.Spec.NodeAffinity.Required == nil {
		return ""
	}
	for _, term := range v.Spec.NodeAffinity.Required.NodeSelectorTerms {
		for _, e := range term.MatchExpressions {
			if e.Key == TopologyKey && len(e.Values) == 1 {
				return e.Values[0]
			}
		}
	}
	return ""
}

// wholeGiB rounds up, as Azure does; the smallest disk has 1 GiB.
func wholeGiB(asked resource.Quantity) resource.Quantity {
	const gib = 1 << 30
	whole := max((asked.Value()-1)/gib+1, 1)
	return *resource.NewQuantity(whole*gib, resource.BinarySI)
}

func reclaimPolicy(class *storagev1.StorageClass) corev1.PersistentVolumeReclaimPolicy {
	if class.ReclaimPolicy == nil {
		return corev1.PersistentVolumeReclaimDelete
	}
	return *class.ReclaimPolicy
}

// unwanted reports whether this driver must delete a volume: its claim was deleted.
func unwanted(v *corev1.PersistentVolume) bool {
	return v.Annotations[annotationProvisionedBy] == DriverName && v.DeletionTimestamp == nil &&
		v.Status.Phase == corev1.VolumeReleased && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
}
