package azure

import (
	"context"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/provider"
)

// image picks from the class's status; from the galleries before the class controller has
// been there, or when the one picked is not there any more.
func (l *launch) image(ctx context.Context, s *sku) (string, error) {
	images := l.class.Status.Images
	if id, ok := imageFor(images, s); len(images) == 0 || ok && l.p.images.doubtful(imageNamed(id)) {
		wish, err := ImageWishOf(l.class)
		if err != nil {
			return "", &provider.NotReadyError{Class: l.class.Name, Reason: v1beta1.ReasonImagesNotFound, Detail: err.Error()}
		}
		wish.Hold = true // newer images are for the class controller to take
		if images, err = l.p.Images(ctx, wish); err != nil {
			return "", err
		}
	}
	id, ok := imageFor(images, s)
	if !ok {
		return "", &provider.NotReadyError{Class: l.class.Name, Reason: v1beta1.ReasonImagesNotFound, Detail: "no image starts on " + s.name}
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
