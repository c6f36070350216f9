// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"context"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/provider/azure/internal/image"
)

// Images returns one image of every definition that the node class can use, in the version it
// wants, preferred definitions first. Definitions without such a version are left out;
// ErrNoImages means that none is left.
func (p *Provider) Images(ctx context.Context, wish ImageWish) ([]v1beta1.NodeImage, error) {
	return p.images.Pick(ctx, wish)
}

// SharedGallery configures the galleries that AKS shares with single customers only. The zero
// value does not use them.
type SharedGallery = image.SharedGallery

// An ImageWish says which images new nodes of a class use: by default the newest of each
// definition.
type ImageWish = image.Wish

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

// ImageWishOf returns what a node class wants. The error names the malformed annotation.
func ImageWishOf(class *v1beta1.AKSNodeClass) (ImageWish, error) { return image.WishOf(class) }

// ImagesKept parses AnnotationImagesKept; nil when it is missing or malformed.
func ImagesKept(class *v1beta1.AKSNodeClass) map[string]string { return image.Kept(class) }

// KeepImages records in AnnotationImagesKept the versions of images that next lacks, or has in
// another version.
func KeepImages(class *v1beta1.AKSNodeClass, next []v1beta1.NodeImage) { image.Keep(class, next) }

// KeptInWords describes which images new nodes use because the node class lost its own; empty
// when there are none.
func KeptInWords(class *v1beta1.AKSNodeClass) string { return image.KeptInWords(class) }
