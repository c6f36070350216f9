// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"context"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/image"
	"github.com/karve-dev/karve/provider/azure/internal/sku"
)

// image picks an image from the node class's status. It picks from the galleries while the
// status has none, or when the picked one does not exist any more.
func (l *launch) image(ctx context.Context, s *sku.SKU) (string, error) {
	images := l.class.Status.Images
	if id, ok := image.For(images, s); len(images) == 0 || ok && l.p.images.Doubtful(image.Parts(id)) {
		wish, err := image.WishOf(l.class)
		if err != nil {
			return "", &provider.NotReadyError{Class: l.class.Name, Reason: v1beta1.ReasonImagesNotFound, Detail: err.Error()}
		}
		wish.Hold = true // only the class controller changes to newer images
		if images, err = l.p.images.Pick(ctx, wish); err != nil {
			return "", err
		}
	}
	id, ok := image.For(images, s)
	if !ok {
		return "", &provider.NotReadyError{Class: l.class.Name, Reason: v1beta1.ReasonImagesNotFound, Detail: "no image starts on " + s.Name}
	}
	l.imageID = id
	return id, nil
}

func imageReference(id string) *armcompute.ImageReference {
	if strings.HasPrefix(strings.ToLower(id), "/communitygalleries/") {
		return &armcompute.ImageReference{CommunityGalleryImageID: to.Ptr(id)}
	}
	return &armcompute.ImageReference{ID: to.Ptr(id)}
}
