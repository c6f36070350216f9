// SPDX-License-Identifier: Apache-2.0

package nodeclass

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/provider/azure"
)

// Reasons of ImagesReady beside those of the API package.
const (
	// ReasonImageAnnotationInvalid: an annotation about images cannot be meant.
	ReasonImageAnnotationInvalid = "ImageAnnotationInvalid"
	// ReasonMaintenanceWindowClosed: images are kept until the window opens.
	ReasonMaintenanceWindowClosed = "MaintenanceWindowClosed"
	// ReasonMaintenanceWindowUnknown: whether the window is open is unknown, so
	// images are kept.
	ReasonMaintenanceWindowUnknown = "MaintenanceWindowUnknown"
)

// images looks up the images that new nodes start from. Newer versions replace existing nodes, so
// they wait for the maintenance window; images for another Kubernetes version do not, and neither
// do images that the class lacks altogether. The condition's reason records that images of an
// upgrade are still to be found.
func (r *Reconciler) images(ctx context.Context, class *v1beta1.AKSNodeClass, upgraded bool) {
	const condition = v1beta1.ConditionTypeImagesReady
	if class.Status.KubernetesVersion == nil {
		class.SetUnknown(condition, v1beta1.ReasonAwaitingReconciliation, "the Kubernetes version is not known yet")
		return
	}
	upgraded = upgraded || class.Condition(condition).Reason == v1beta1.ReasonKubernetesUpgrade
	selection, err := azure.ImageSelectionOf(class)
	if err != nil {
		r.reportMalformed(class, err)
		return
	}
	held := heldBack{}
	if !upgraded && selection.Version == "" && (len(class.Status.Images) > 0 || len(azure.ToleratedImages(class)) > 0) {
		held = r.heldBack(ctx)
	}
	selection.KeepCurrent = held.reason != ""
	images, err := r.Azure.Images(ctx, selection)
	switch {
	case errors.Is(err, azure.ErrFIPSNeedsSharedGallery):
		r.noImages(class, v1beta1.ReasonSIGRequiredForFIPS, err)
	case errors.Is(err, azure.ErrNoImages):
		r.noImages(class, v1beta1.ReasonImagesNotFound, err)
	case err != nil:
		keep(class, condition, len(class.Status.Images) > 0, err)
		if upgraded {
			stillUpgrading(class)
		}
	default:
		r.useImages(class, images, held)
	}
}

// reportMalformed keeps the images when the spec does not show which ones are wanted: the
// newest would replace the very nodes that a user meant to keep.
func (r *Reconciler) reportMalformed(class *v1beta1.AKSNodeClass, err error) {
	const condition = v1beta1.ConditionTypeImagesReady
	keep(class, condition, len(class.Status.Images) > 0, err)
	if c := class.Condition(condition); c.Status != metav1.ConditionTrue {
		class.SetFalse(condition, ReasonImageAnnotationInvalid, err.Error())
	}
}

// stillUpgrading makes the next look forget the window too.
func stillUpgrading(class *v1beta1.AKSNodeClass) {
	c := class.Condition(v1beta1.ConditionTypeImagesReady)
	c.Reason = v1beta1.ReasonKubernetesUpgrade
	class.SetCondition(c)
}

// heldBack is why newer images are not used for now; the zero value means that they are.
type heldBack struct{ reason, message string }

func (r *Reconciler) heldBack(ctx context.Context) heldBack {
	if r.Window == nil {
		return heldBack{}
	}
	open, from, err := r.Window.Open(ctx)
	switch {
	case err != nil:
		return heldBack{ReasonMaintenanceWindowUnknown, "images stay as they are: " + err.Error()}
	case open:
		return heldBack{}
	case from.IsZero():
		return heldBack{ReasonMaintenanceWindowClosed, "images stay as they are until the next maintenance window"}
	}
	return heldBack{ReasonMaintenanceWindowClosed, "images stay as they are until the maintenance window opens at " + from.UTC().Format(time.RFC3339)}
}

func (r *Reconciler) noImages(class *v1beta1.AKSNodeClass, reason string, err error) {
	azure.TolerateImages(class, nil) // when there are some again, nodes need not be replaced at once
	class.Status.Images = nil
	class.SetFalse(v1beta1.ConditionTypeImagesReady, reason, err.Error())
}

func (r *Reconciler) useImages(class *v1beta1.AKSNodeClass, images []v1beta1.NodeImage, held heldBack) {
	const condition = v1beta1.ConditionTypeImagesReady
	if held.reason != "" {
		azure.TolerateImages(class, images)
	}
	if !equality.Semantic.DeepEqual(class.Status.Images, images) {
		class.Status.Images = images
	}
	if held.reason == "" {
		delete(class.Annotations, azure.AnnotationImagesKept)
		class.SetTrue(condition)
		return
	}
	class.SetCondition(metav1.Condition{Type: condition, Status: metav1.ConditionTrue, Reason: held.reason, Message: held.message + azure.DescribeToleratedImages(class)})
}
