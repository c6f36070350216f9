// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"context"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/image"
	"github.com/karve-dev/karve/provider/azure/internal/sku"
)

// imageFor picks an image from the node class's status. It picks from the galleries while the
// status has none, or when the picked one does not exist any more.
func (c *vmCreator) imageFor(ctx context.Context, class *v1beta1.AKSNodeClass, s *sku.SKU) (string, error) {
	images := class.Status.Images
	if id, ok := image.For(images, s); len(images) == 0 || ok && c.images.SeemsMissing(image.Parts(id)) {
		wish, err := image.SelectionOf(class)
		if err != nil {
			return "", &provider.NotReadyError{Class: class.Name, Reason: v1beta1.ReasonImagesNotFound, Detail: err.Error()}
		}
		wish.KeepCurrent = true // only the class controller changes to newer images
		if images, err = c.images.Pick(ctx, wish); err != nil {
			return "", err
		}
	}
	id, ok := image.For(images, s)
	if !ok {
		return "", &provider.NotReadyError{Class: class.Name, Reason: v1beta1.ReasonImagesNotFound, Detail: "no image starts on " + s.Name}
	}
	return id, nil
}
