// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// provision makes the volume of a claim in the zone of the node that the scheduler
// chose. The volume controller binds the two.
func (d *Driver) provision(ctx context.Context, namespace, name string) error {
	claim, err := d.claims.PersistentVolumeClaims(namespace).Get(name)
	if err != nil || !awaits(claim) || claim.Spec.StorageClassName == nil {
		return err
	}
	class, err := d.classes.Get(*claim.Spec.StorageClassName)
	if err != nil {
		return waiting("reading its StorageClass", err)
	}
	if err := check(claim, class); err != nil {
		d.events.Event(claim, corev1.EventTypeWarning, "ProvisioningFailed", err.Error())
		return nil // until the claim changes
	}
	chosen := claim.Annotations[annotationSelectedNode]
	if chosen == "" {
		return nil
	}
	node, err := d.nodes.Get(chosen)
	if apierrors.IsNotFound(err) {
		return d.chooseAgain(ctx, claim)
	}
	if err != nil {
		return fmt.Errorf("reading node %s: %w", chosen, err)
	}
	zone, known := node.Labels[TopologyKey]
	if !known {
		return fmt.Errorf("the driver on node %s has not reported its zone yet", chosen)
	}
	return d.create(ctx, claim, volumeFor(claim, class, zone, d.options.ResourceGroupID+"/providers/Microsoft.Compute/disks/"))
}

func (d *Driver) create(ctx context.Context, claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) error {
	_, err := d.options.Client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("creating volume %s: %w", volume.Name, err)
	}
	d.events.Eventf(claim, corev1.EventTypeNormal, "ProvisioningSucceeded", "Successfully provisioned volume %s", volume.Name)
	d.options.Log.Info("volume made", "volume", volume.Name, "claim", claim.Namespace+"/"+claim.Name)
	return nil
}

// chooseAgain returns the claim to the scheduler: the node it chose was deleted.
func (d *Driver) chooseAgain(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	updated := claim.DeepCopy()
	delete(updated.Annotations, annotationSelectedNode)
	_, err := d.options.Client.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, updated, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("handing claim %s/%s back to the scheduler: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}

// reclaim deletes a released volume. Azure refuses to delete a disk that is attached,
// so this waits for the deletion of the last attachment.
func (d *Driver) reclaim(ctx context.Context, name string) error {
	volume, err := d.volumes.Get(name)
	if err != nil || !unwanted(volume) {
		return err
	}
	attached, err := d.attachmentsOf(name)
	if err != nil || len(attached) > 0 {
		return err
	}
	preconditions := metav1.NewUIDPreconditions(string(volume.UID))
	if err := d.options.Client.CoreV1().PersistentVolumes().Delete(ctx, name, metav1.DeleteOptions{Preconditions: preconditions}); err != nil {
		return fmt.Errorf("deleting volume %s: %w", name, err)
	}
	d.options.Log.Info("volume deleted", "volume", name)
	return nil
}

// waiting keeps "not found" from looking as if the claim itself was deleted: it was not,
// and is to be tried again.
func waiting(act string, err error) error { return errors.New(act + ": " + err.Error()) }
