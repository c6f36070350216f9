// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"fmt"
	"slices"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// finalizer keeps an attachment until its disk is detached. It has the name that the
// real attacher's has.
const finalizer = "external-attacher/disk-csi-azure-com"

// attach carries out the attach controller's request: an attachment is a request
// to attach, its deletion a request to detach.
func (d *Driver) attach(ctx context.Context, name string) (again time.Duration, err error) {
	a, err := d.attachments.Get(name)
	if err != nil || a.Spec.Attacher != DriverName {
		return 0, err
	}
	switch {
	case a.DeletionTimestamp != nil && !slices.Contains(a.Finalizers, finalizer):
		return 0, nil
	case a.DeletionTimestamp != nil:
		return d.when(a.DeletionTimestamp, func() error { return d.setFinalizers(ctx, a, without(a.Finalizers)) })
	case !slices.Contains(a.Finalizers, finalizer):
		return 0, d.setFinalizers(ctx, a, append(slices.Clone(a.Finalizers), finalizer))
	case a.Status.Attached:
		return 0, nil
	}
	return d.when(&a.CreationTimestamp, func() error { return d.setAttached(ctx, a) })
}

// when acts once Azure's delay has passed since a moment.
func (d *Driver) when(since *metav1.Time, act func() error) (again time.Duration, err error) {
	if left := d.options.Delay - time.Since(since.Time); left > 0 {
		return left, nil
	}
	return 0, act()
}

func without(finalizers []string) []string {
	return slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool { return f == finalizer })
}

func (d *Driver) setFinalizers(ctx context.Context, a *storagev1.VolumeAttachment, finalizers []string) error {
	updated := a.DeepCopy()
	updated.Finalizers = finalizers
	if _, err := d.options.Client.StorageV1().VolumeAttachments().Update(ctx, updated, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("writing attachment %s: %w", a.Name, err)
	}
	return nil
}

// setAttached attaches the disk, unless it is attached to another VM: Azure refuses that.
func (d *Driver) setAttached(ctx context.Context, a *storagev1.VolumeAttachment) error {
	other, err := d.holder(a)
	if err != nil {
		return err
	}
	updated := a.DeepCopy()
	updated.Status.Attached, updated.Status.AttachError = other == "", nil
	if other != "" {
		message := fmt.Sprintf("the disk is attached to %s", other)
		updated.Status.AttachError = &storagev1.VolumeError{Time: metav1.Now(), Message: message}
	}
	if _, err := d.options.Client.StorageV1().VolumeAttachments().UpdateStatus(ctx, updated, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("writing the status of attachment %s: %w", a.Name, err)
	}
	if other != "" {
		return fmt.Errorf("attaching to %s: the disk is attached to %s", a.Spec.NodeName, other)
	}
	return nil
}

// holder names another node that the attachment's disk is attached to, if any.
func (d *Driver) holder(a *storagev1.VolumeAttachment) (node string, err error) {
	if a.Spec.Source.PersistentVolumeName == nil {
		return "", nil
	}
	all, err := d.attachmentsOf(*a.Spec.Source.PersistentVolumeName)
	if err != nil {
		return "", err
	}
	for _, other := range all {
		if other.Name != a.Name && other.Status.Attached {
			return other.Spec.NodeName, nil
		}
	}
	return "", nil
}

// attachmentsOf lists a volume's attachments, including those that are being detached.
func (d *Driver) attachmentsOf(volume string) ([]*storagev1.VolumeAttachment, error) {
	all, err := d.attachments.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("listing attachments: %w", err)
	}
	return slices.DeleteFunc(all, func(a *storagev1.VolumeAttachment) bool {
		pv := a.Spec.Source.PersistentVolumeName
		return pv == nil || *pv != volume
	}), nil
}
