// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/provider/azure/internal/image"
)

// SharedGallery configures the galleries that AKS shares with single customers only. The zero
// value does not use them.
type SharedGallery = image.SharedGallery

// An ImageSelection says which images new nodes of a class use: by default the newest of each
// definition.
type ImageSelection = image.Selection

// Annotations of an AKSNodeClass that hold back newer images.
const (
	// AnnotationImageVersion is the only image version that nodes of the class use.
	AnnotationImageVersion = image.AnnotationVersion
	// AnnotationImageMinAge is how long a version must have been published before nodes use it.
	AnnotationImageMinAge = image.AnnotationMinAge
	// AnnotationImagesKept holds the versions that became unavailable before a maintenance window
	// allowed newer ones: nodes that run a kept version do not drift because of that.
	AnnotationImagesKept = image.AnnotationKept
)

var (
	// ErrFIPSNeedsSharedGallery reports that FIPS images are in shared galleries only.
	ErrFIPSNeedsSharedGallery = image.ErrFIPSNeedsSharedGallery
	// ErrNoImages reports that the galleries hold no image for a node class.
	ErrNoImages = image.ErrNone
)

// ImageSelectionOf returns what a node class wants. The error names the malformed annotation.
func ImageSelectionOf(class *v1beta1.AKSNodeClass) (ImageSelection, error) {
	return image.SelectionOf(class)
}

// ToleratedImages parses AnnotationImagesKept; nil when it is missing or malformed.
func ToleratedImages(class *v1beta1.AKSNodeClass) map[string]string { return image.Tolerated(class) }

// TolerateImages records in AnnotationImagesKept the versions of images that next lacks, or has in
// another version.
func TolerateImages(class *v1beta1.AKSNodeClass, next []v1beta1.NodeImage) {
	image.Tolerate(class, next)
}

// DescribeToleratedImages describes which images new nodes use because the node class lost its
// own; empty when there are none.
func DescribeToleratedImages(class *v1beta1.AKSNodeClass) string {
	return image.DescribeTolerated(class)
}
